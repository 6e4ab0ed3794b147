package recorder

import (
	"crypto/tls"
	"crypto/x509"
	"errors"

	"github.com/warctee/warctee/warc"
)

// maxWarned bounds the hosts that are remembered; beyond it there may be a
// second warning of one.
const maxWarned = 4096

// verify says why the certificate of an origin would not be trusted, of a
// connection that was made without asking; "" when it would be. The log tells
// it once for each host.
func (p *pool) verify(config *tls.Config, state *tls.ConnectionState) string {
	err := verifyChain(config, state.PeerCertificates)
	if err == nil {
		return ""
	}
	p.mu.Lock()
	again := p.warned[config.ServerName]
	if len(p.warned) >= maxWarned {
		clear(p.warned)
	}
	p.warned[config.ServerName] = true
	p.mu.Unlock()
	if !again {
		p.log.Warn("the certificate of an origin is not trusted: it is recorded all the same, and the archive says so", "host", config.ServerName, "error", err)
	}
	return err.Error()
}

// verifyChain does what crypto/tls does with a certificate that is verified.
func verifyChain(config *tls.Config, chain []*x509.Certificate) error {
	if len(chain) == 0 {
		return errors.New("there is no certificate")
	}
	o := x509.VerifyOptions{Roots: config.RootCAs, DNSName: config.ServerName, Intermediates: x509.NewCertPool()}
	if config.Time != nil {
		o.CurrentTime = config.Time()
	}
	for _, c := range chain[1:] {
		o.Intermediates.AddCert(c)
	}
	_, err := chain[0].Verify(o)
	return err
}

// addNote makes the header of the metadata record that says what was wrong with
// the origin's certificate, where something was, and returns its id.
func (x *exchange) addNote(c *capture, responseID string) (id string) {
	if x.spoken.untrusted == "" {
		return ""
	}
	id = warc.NewRecordID()
	block := x.noteBlock()
	digest := x.r.options.Digest.New()
	digest.Write(block)
	h := &c.note.header
	x.startHeader(h, warc.TypeMetadata, id, c.date)
	h.Add("WARC-Concurrent-To", responseID)
	h.Add("WARC-Block-Digest", x.r.options.Digest.Format(digest.Sum(nil)))
	h.Add("Content-Type", "application/warc-fields")
	c.note.length = int64(len(block))
	return id
}

func (x *exchange) noteBlock() []byte {
	return warcFields([]warc.Field{{Name: "tls-verify", Value: "failed: " + x.spoken.untrusted}})
}
