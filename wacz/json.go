package wacz

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

var errNoObject = errors.New("it is no object of JSON")

// eachMember calls use for each member of an object of JSON, which has to read the
// value from d.
func eachMember(text []byte, use func(name string, d *json.Decoder) error) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if start, err := d.Token(); err != nil {
		return err
	} else if start != json.Delim('{') {
		return errNoObject
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		if err := use(name.(string), d); err != nil { // names are strings
			return fmt.Errorf("%q: %w", cut(name.(string)), err)
		}
	}
	if _, err := d.Token(); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("something follows the object")
	}
	return nil
}

// eachElement calls use for each element of the array that comes in d, which has to
// read it.
func eachElement(d *json.Decoder, use func() error) error {
	start, err := d.Token()
	if err != nil || start == nil { // null
		return err
	}
	if start != json.Delim('[') {
		return errors.New("it is no array")
	}
	for d.More() {
		if err := use(); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}

// skipValue reads the value that comes in d.
func skipValue(d *json.Decoder) error {
	for depth := 0; ; {
		token, err := d.Token()
		if err != nil {
			return err
		}
		switch token {
		case json.Delim('['), json.Delim('{'):
			depth++
		case json.Delim(']'), json.Delim('}'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}
