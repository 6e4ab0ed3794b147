package recorder

import "context"

// A Client is what an exchange is for. It bounds what the exchanges of one
// client may have at once of what all share; exchanges without one are not
// bounded so.
type Client struct {
	// Name tells clients apart, such as an address; "": it is not known.
	Name string
	// Tunnel tells apart the tunnels of clients in which many requests go to
	// one origin at once: see Options.MaxConnsPerTunnel. It is compared; nil:
	// the requests are not that many.
	Tunnel any
	// HangUp ends a write to the client that is under way, or the next one.
	// It is called, if set, at most once, and after the exchange was cut.
	HangUp func()
}

type clientKey struct{}

// WithClient tells RoundTrip which client a request is for.
func WithClient(ctx context.Context, c Client) context.Context {
	return context.WithValue(ctx, clientKey{}, &c)
}

// clientOf returns the client of a request, or nil.
func clientOf(ctx context.Context) *Client {
	c, _ := ctx.Value(clientKey{}).(*Client)
	return c
}
