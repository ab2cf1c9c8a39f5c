//go:build unix

package main

// targetMutants are mistakes in the sinks and sources of brokers.
func targetMutants() []*mutant {
	return []*mutant{
		{name: "too few replicas counts as delivered", file: "sinks/kafka/result.go", rows: []int{24},
			from: "	if code == 0 {\n		return confirmed()\n", to: "	if code == 0 || kafka.Error(code) == kafka.NotEnoughReplicas {\n		return confirmed()\n"},
		{name: "too large is tried again", file: "sinks/kafka/result.go", rows: []int{25},
			from: "	case kafka.MessageSizeTooLarge, ", to: "	case kafka.MessageSizeTooLarge:\n		return answer{class: core.Retry}\n	case "},
		{name: "returned counts as delivered", file: "sinks/amqp/publisher.go", rows: []int{26},
			from: "	p.applyReturns(messages, l.results)\n", to: ""},
		{name: "negative confirm counts as delivered", file: "sinks/amqp/publisher.go", rows: []int{26},
			from: "	return errNacked\n", to: "	return nil\n"},
		{name: "stored without a replica counts as delivered", file: "sinks/rocketmq/failure.go", rows: []int{27},
			from: "	if s.flushAccepted {\n", to: "	if true {\n"},
		{name: "a plugin that is gone has delivered", file: "sinks/plugin/delivery.go", rows: []int{31},
			from: "	return core.Classify(core.Unknown, said)\n", to: "	return nil\n"},
		{name: "a plugin that did not start is not tried again", file: "sinks/plugin/open.go", rows: []int{58},
			from: "	go s.supervise(ctx, in, err)\n", to: "	if in != nil {\n		go s.supervise(ctx, in, err)\n	} else {\n		close(s.done)\n	}\n"},
		{name: "what is published again has the id of the hop before", file: "interceptors/amqp/incoming.go", rows: []int{56},
			from: "		return in.ids.of(in.MessageId + \"~\" + strconv.Itoa(in.m.Hop))\n", to: "		return in.ids.of(in.MessageId)\n"},
		{name: "a source that stops ends its bridge", file: "interceptors/source/supervisor.go", rows: []int{57},
			from: "			<-ctx.Done()\n			break\n", to: "			return err\n"},
		{name: "a bad record is left out though it should stop its source", file: "interceptors/source/parker.go", rows: []int{57},
			from: "	case reject == nil && p.Skip:\n", to: "	case reject == nil:\n"},
		{name: "offset committed before the park", file: "interceptors/kafka/chunk.go", rows: []int{37},
			from: "	if len(c.items) > 0 {\n		if err := c.parker.Park(", to: "	c.done(position{topicID: c.of, point: point{c.upTo, c.epoch}})\n	wait(ctx, 200_000_000) // until the commit is through\n	if len(c.items) > 0 {\n		if err := c.parker.Park("},
		{name: "record that is read again has another id", file: "interceptors/kafka/chunk.go", rows: []int{37},
			from: "	return string(c.text)\n", to: "	return \"\"\n"},
		{name: "a record is known by its offset", file: "interceptors/kafka/chunk.go", rows: []int{55},
			from: "	c.text = hex.AppendEncode(append(c.text, ':'), sums[:])\n", to: "	_ = hex.EncodeToString(sums[:])\n"},
	}
}
