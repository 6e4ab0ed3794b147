package cdx

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxDepth bounds how deep the JSON in the body of a request may be nested.
const maxDepth = 500

var (
	errNotUTF8 = errors.New("not UTF-8")
	errDeep    = errors.New("nested too deep")
	errAfter   = errors.New("something comes after the value")
)

// jsonQuery makes a query of all named values in a JSON text, at any depth, in
// their order. A name that was there before gets a number: a, a.2_, a.3_.
func jsonQuery(text []byte) (string, bool) {
	v, err := parseJSON(text)
	if err != nil {
		return "", false
	}
	f := flattener{places: make(map[string]int), count: make(map[string]int)}
	f.add("", v)
	if f.err != nil {
		return "", false
	}
	return f.query(), true
}

// A value of JSON is a string, a json.Number, a bool, nil, or one of these.
type (
	object []member
	array  []any
	member struct {
		name  string
		value any
	}
)

// parseJSON keeps the order of members, which a map would lose.
func parseJSON(text []byte) (any, error) {
	if !utf8.Valid(text) {
		return nil, errNotUTF8
	}
	d := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(text, []byte("\ufeff"))))
	d.UseNumber()
	v, err := parseValue(d, 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errAfter
	}
	return v, nil
}

func parseValue(d *json.Decoder, depth int) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	if depth > maxDepth {
		return nil, errDeep
	}
	switch token {
	case json.Delim('['):
		a := array{}
		for d.More() {
			v, err := parseValue(d, depth+1)
			if err != nil {
				return nil, err
			}
			a = append(a, v)
		}
		_, err := d.Token()
		return a, err
	case json.Delim('{'):
		o := object{}
		places := make(map[string]int)
		for d.More() {
			name, err := d.Token()
			if err != nil {
				return nil, err
			}
			v, err := parseValue(d, depth+1)
			if err != nil {
				return nil, err
			}
			m := member{name.(string), v}
			if i, known := places[m.name]; known {
				o[i] = m // the last one counts, in the place of the first
				continue
			}
			places[m.name] = len(o)
			o = append(o, m)
		}
		_, err := d.Token()
		return o, err
	}
	return token, nil
}

// A flattener makes a query of nested values.
type flattener struct {
	pairs  []member
	places map[string]int // in pairs, by name
	count  map[string]int // how often a name came
	octets int
	err    error
}

func (f *flattener) add(name string, value any) {
	if f.octets >= maxQuery || f.err != nil {
		return // what follows would be cut off
	}
	switch v := value.(type) {
	case object:
		for _, m := range v {
			f.add(m.name, m.value)
		}
	case array:
		for _, element := range v {
			f.add(name, element)
		}
	default:
		if name != "" {
			f.addPair(name, f.text(v))
		}
	}
}

// addPair gives a name that is there already a number. When somebody has called a
// member a.2_ there may be such a name too, and its value is replaced.
func (f *flattener) addPair(name, value string) {
	if _, known := f.places[name]; known {
		f.count[name] = max(f.count[name], 1) + 1
		name += "." + strconv.Itoa(f.count[name]) + "_"
	}
	if i, known := f.places[name]; known {
		f.pairs[i].value = value
		return
	}
	f.places[name] = len(f.pairs)
	f.pairs = append(f.pairs, member{name, value})
	f.octets += len(name) + len(value) + len("=&")
}

func (f *flattener) query() string {
	var q queryBuilder
	for _, p := range f.pairs {
		q.add(p.name, p.value.(string))
	}
	return q.b.String()
}

// text writes a value as pywb does, which in most cases is how JavaScript would.
func (f *flattener) text(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case bool:
		return strconv.FormatBool(v)
	case json.Number:
		s, err := number(v.String())
		f.err = err
		return s
	}
	return "null"
}

// number writes a number like Python: whole ones without a fraction, small ones
// with an exponent.
func number(s string) (string, error) {
	if !strings.ContainsAny(s, ".eE") {
		if s == "-0" {
			s = "0"
		}
		return s, nil
	}
	f, err := strconv.ParseFloat(s, 64)
	switch {
	case err != nil: // too large
		return "", err
	case f == 0:
		return "0", nil
	case f == math.Trunc(f):
		return strconv.FormatFloat(f, 'f', 0, 64), nil
	case math.Abs(f) < 1e-4:
		return strconv.FormatFloat(f, 'e', -1, 64), nil
	}
	return strconv.FormatFloat(f, 'f', -1, 64), nil // with a fraction, and so less than 1e16
}
