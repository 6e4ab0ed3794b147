package warc

import "github.com/google/uuid"

// NewRecordID returns a new WARC-Record-ID, a random UUID (RFC 9562 §5.4) in
// angle brackets.
func NewRecordID() string {
	return "<" + uuid.New().URN() + ">"
}
