//go:build race

package warc

// The race detector makes pools forget at random.
func init() { raceEnabled = true }
