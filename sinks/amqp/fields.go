package amqp

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/internal/brokers/amqp"
)

// maxFieldDepth bounds how deep tables and lists may nest.
const maxFieldDepth = 32

var (
	errFieldType = errors.New("has an unknown type")
	errFieldText = errors.New("is not of its type")
	errFieldJSON = errors.New("is not JSON of the documented form")
	errFieldDeep = errors.New("nests too deep")
)

// fieldOf makes a value of a table of what kind, a letter of the protocol, and
// text say; see the package documentation.
func fieldOf(kind string, text []byte) (any, error) {
	switch kind {
	case "S":
		return string(text), nil
	case "x":
		return text, nil
	case "F", "A":
		return nested(kind, text, maxFieldDepth)
	}
	return scalar(kind, string(text))
}

// scalar reads what has one text for each value.
func scalar(kind, text string) (any, error) {
	switch kind {
	case "t":
		if text != "true" && text != "false" {
			return nil, errFieldText
		}
		return text == "true", nil
	case "f":
		v, err := strconv.ParseFloat(text, 32)
		return float32(v), badText(err)
	case "d":
		v, err := strconv.ParseFloat(text, 64)
		return v, badText(err)
	case "D":
		return decimal(text)
	case "T":
		v, err := strconv.ParseInt(text, 10, 64)
		return time.Unix(v, 0), badText(err)
	}
	return integer(kind, text)
}

func integer(kind, text string) (any, error) {
	switch kind {
	case "b":
		v, err := strconv.ParseInt(text, 10, 8)
		return int8(v), badText(err)
	case "B":
		v, err := strconv.ParseUint(text, 10, 8)
		return uint8(v), badText(err)
	case "s":
		v, err := strconv.ParseInt(text, 10, 16)
		return int16(v), badText(err)
	case "u":
		v, err := strconv.ParseUint(text, 10, 16)
		return uint16(v), badText(err)
	case "I":
		v, err := strconv.ParseInt(text, 10, 32)
		return int32(v), badText(err)
	case "i":
		v, err := strconv.ParseUint(text, 10, 32)
		return uint32(v), badText(err)
	case "l":
		v, err := strconv.ParseInt(text, 10, 64)
		return v, badText(err)
	}
	return nil, errFieldType
}

func badText(err error) error {
	if err != nil {
		return errFieldText
	}
	return nil
}

// decimal reads a number such as 1234e-2.
func decimal(text string) (any, error) {
	digits, scale, ok := strings.Cut(text, "e-")
	value, valueErr := strconv.ParseInt(digits, 10, 32)
	power, scaleErr := strconv.ParseUint(scale, 10, 8)
	if !ok || valueErr != nil || scaleErr != nil {
		return nil, errFieldText
	}
	return amqp091.Decimal{Scale: uint8(power), Value: int32(value)}, nil
}

// nested reads a table or a list.
func nested(kind string, text []byte, depth int) (any, error) {
	switch {
	case depth == 0:
		return nil, errFieldDeep
	case kind == "F":
		return table(text, depth)
	}
	return list(text, depth)
}

func table(text []byte, depth int) (any, error) {
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) != nil || members == nil {
		return nil, errFieldJSON
	}
	made := make(amqp091.Table, len(members))
	for name, raw := range members {
		if err := amqp.CheckShort("name", name); err != nil {
			return nil, err
		}
		value, err := member(raw, depth)
		if err != nil {
			return nil, err
		}
		made[name] = value
	}
	return made, nil
}

func list(text []byte, depth int) (any, error) {
	var items []json.RawMessage
	if json.Unmarshal(text, &items) != nil || items == nil {
		return nil, errFieldJSON
	}
	made := make([]any, len(items))
	for n, raw := range items {
		value, err := member(raw, depth)
		if err != nil {
			return nil, err
		}
		made[n] = value
	}
	return made, nil
}

// member reads a value in a table or list: a pair of its type and what it is.
func member(raw json.RawMessage, depth int) (any, error) {
	var pair []json.RawMessage
	var kind, text string
	if json.Unmarshal(raw, &pair) != nil || len(pair) == 0 || len(pair) > 2 || json.Unmarshal(pair[0], &kind) != nil {
		return nil, errFieldJSON
	}
	switch {
	case kind == "V" && len(pair) == 1:
		return nil, nil
	case len(pair) == 1:
		return nil, errFieldJSON
	case kind == "F" || kind == "A":
		return nested(kind, pair[1], depth-1)
	case json.Unmarshal(pair[1], &text) != nil:
		return nil, errFieldJSON
	}
	switch kind {
	case "S":
		return text, nil
	case "x", "Sx":
		decoded, err := base64.StdEncoding.DecodeString(text)
		if kind == "Sx" {
			return string(decoded), badText(err)
		}
		return decoded, badText(err)
	}
	return scalar(kind, text)
}
