package amqpsource

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// maxFieldDepth bounds how deep tables and lists may nest: an AMQP sink takes
// twice as much.
const maxFieldDepth = 16

var (
	errFieldType = errors.New("has a value of an unknown type")
	errFieldDeep = errors.New("has tables or lists that nest too deep")
)

// fieldText is a value of a table as an AMQP sink's option header_types wants
// it: the letter of its type, and its text. nil is null, a long string's or
// bytes' own otherwise.
func fieldText(value any) (kind string, text []byte, err error) {
	switch v := value.(type) {
	case nil:
		return "S", nil, nil // whatever the letter: there is no text
	case string:
		return "S", []byte(v), nil
	case []byte:
		return "x", append([]byte{}, v...), nil
	case amqp091.Table, []any:
		kind, tree, err := fieldTree(v, maxFieldDepth)
		if err != nil {
			return "", nil, err
		}
		text, err := json.Marshal(tree)
		return kind, text, err
	}
	kind, plain, err := scalarText(value)
	return kind, []byte(plain), err
}

// scalarText is for what has one text for each value.
func scalarText(value any) (kind, text string, err error) {
	switch v := value.(type) {
	case bool:
		return "t", strconv.FormatBool(v), nil
	case float32:
		return "f", strconv.FormatFloat(float64(v), 'g', -1, 32), nil
	case float64:
		return "d", strconv.FormatFloat(v, 'g', -1, 64), nil
	case amqp091.Decimal:
		return "D", strconv.Itoa(int(v.Value)) + "e-" + strconv.Itoa(int(v.Scale)), nil
	case time.Time:
		return "T", strconv.FormatInt(v.Unix(), 10), nil
	}
	return integerText(value)
}

func integerText(value any) (kind, text string, err error) {
	var n int64
	switch v := value.(type) {
	case int8:
		kind, n = "b", int64(v)
	case uint8:
		kind, n = "B", int64(v)
	case int16:
		kind, n = "s", int64(v)
	case uint16:
		kind, n = "u", int64(v)
	case int32:
		kind, n = "I", int64(v)
	case uint32:
		kind, n = "i", int64(v)
	case int64:
		kind, n = "l", v
	default:
		return "", "", errFieldType
	}
	return kind, strconv.FormatInt(n, 10), nil
}

// decimalText is a decimal with all its digits.
func decimalText(d amqp091.Decimal) string {
	sign, digits := "", strconv.Itoa(int(d.Value))
	if d.Value < 0 {
		sign, digits = "-", digits[1:]
	}
	if d.Scale == 0 {
		return sign + digits
	}
	digits = strings.Repeat("0", max(0, int(d.Scale)+1-len(digits))) + digits
	point := len(digits) - int(d.Scale)
	return sign + digits[:point] + "." + digits[point:]
}

// fieldTree is a table or list as it goes into JSON, with a pair of letter and
// text for each value in it.
func fieldTree(value any, depth int) (kind string, tree any, err error) {
	if depth == 0 {
		return "", nil, errFieldDeep
	}
	switch v := value.(type) {
	case amqp091.Table:
		members := make(map[string]any, len(v))
		for name, one := range v {
			if !utf8.ValidString(name) {
				return "", nil, errFieldType
			}
			if members[name], err = fieldPair(one, depth); err != nil {
				return "", nil, err
			}
		}
		return "F", members, nil
	case []any:
		items := make([]any, len(v))
		for n, one := range v {
			if items[n], err = fieldPair(one, depth); err != nil {
				return "", nil, err
			}
		}
		return "A", items, nil
	}
	return "", nil, errFieldType
}

func fieldPair(value any, depth int) (any, error) {
	switch v := value.(type) {
	case nil:
		return []any{"V"}, nil
	case []byte:
		return []any{"x", base64.StdEncoding.EncodeToString(v)}, nil
	case string:
		if !utf8.ValidString(v) {
			return []any{"Sx", base64.StdEncoding.EncodeToString([]byte(v))}, nil
		}
		return []any{"S", v}, nil
	case amqp091.Table, []any:
		kind, tree, err := fieldTree(v, depth-1)
		return []any{kind, tree}, err
	}
	kind, text, err := scalarText(value)
	return []any{kind, text}, err
}
