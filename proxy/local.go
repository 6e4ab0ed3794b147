package proxy

import (
	"encoding/json"
	"html/template"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"

	"github.com/warctee/warctee/http1"
)

// Pages are what the proxy shows to somebody who opens its own address.
type Pages struct {
	CACertificate []byte     // PEM
	Status        func() any // becomes JSON; must hold no secrets
	State         func() State
	Version       string
	Dir           string // of the archive

	Listen net.Addr // of the proxy; has to be set
	Host   string   // further name that the proxy is known by; may be empty
	Users  *Users   // who may look from other machines; nil: nobody
}

// State is what the front page tells of the recording.
type State struct {
	Word   string // recording, paused or stopped
	Why    string // of the latter; may be empty
	Counts []Count
}

// A Count is how many there are of something.
type Count struct {
	Name string
	N    int64
}

// Handler serves /, /ca.pem and /status to requests that are for the proxy
// itself. A web site must not get at them through the browser of somebody who
// has it open: so the request has to name the proxy as its host (DNS
// rebinding), other sites can neither read nor frame the answer, and the status
// and state are not even sent to them.
func (p Pages) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", p.front)
	mux.HandleFunc("GET /ca.pem", p.certificate)
	mux.HandleFunc("GET /status", p.status)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		answer(w, r, refuse(http.StatusNotFound, "this is a proxy: set it as the HTTP proxy of your program, or open / for help"))
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Proxy-Status", http1.ProxyStatus("", ""))
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		if err := p.refuse(r); err != nil {
			answer(w, r, err)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// refuse says why a request is not answered; nil: it is.
func (p Pages) refuse(r *http.Request) *refusal {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !p.isHost(r.Host, local) {
		at := p.Listen
		if local != nil {
			at = local
		}
		return refuse(http.StatusMisdirectedRequest, "this is a proxy, and %q is not one of its own names: set it as the HTTP proxy of your program, or open http://%s/ for help", r.Host, at)
	}
	switch {
	case isSameMachine(r.RemoteAddr, local), p.Users != nil && p.Users.admit(r, "Authorization"):
	case p.Users != nil:
		return refuse(http.StatusUnauthorized, "the pages of this proxy want a name and a password")
	default:
		return refuse(http.StatusForbidden, "the pages of this proxy can be opened on its own machine only (or with a password: --auth)")
	}
	if r.URL.Path == "/status" && isFromOtherSite(r) {
		return refuse(http.StatusForbidden, "the status is not for other sites")
	}
	return nil
}

// isFromOtherSite reports whether a browser says that another site has led it
// here.
func isFromOtherSite(r *http.Request) bool {
	from := r.Header.Get("Sec-Fetch-Site")
	return from != "" && from != "none" && from != "same-origin"
}

// isHost reports whether a Host field names the proxy. An address can be what
// the client connected to, since no name leads there that somebody else has
// chosen.
func (p Pages) isHost(hostport string, local net.Addr) bool {
	host, port := splitAuthority(hostport)
	listen, err := netip.ParseAddrPort(p.Listen.String())
	if err != nil || port != listen.Port() {
		return false
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		own := bare(listen.Addr())
		if local != nil {
			own, _ = addrOf(local.String())
		}
		return bare(addr).IsLoopback() || bare(addr) == own
	}
	name, _ := os.Hostname()
	short, _, _ := strings.Cut(name, ".")
	for _, own := range []string{"localhost", name, short, p.Host} {
		if own != "" && strings.EqualFold(host, own) {
			return true
		}
	}
	return false
}

// isSameMachine reports whether a client is on the machine of the proxy: it
// comes from the address that it connected to, or from a loopback address.
func isSameMachine(client string, local net.Addr) bool {
	addr, ok := addrOf(client)
	if !ok {
		return false
	}
	if addr.IsLoopback() || local == nil {
		return addr.IsLoopback()
	}
	own, ok := addrOf(local.String())
	return ok && addr == own
}

func (p Pages) certificate(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/x-pem-file")
	w.Header().Set("Content-Disposition", `attachment; filename="warctee-ca.pem"`)
	w.Write(p.CACertificate)
}

func (p Pages) status(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.Encode(p.Status())
}

var frontPage = template.Must(template.New("front").Parse(`<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<title>warctee</title>
<style>body { font: 16px/1.5 sans-serif; max-width: 40em; margin: 3em auto; padding: 0 1em } code { background: #eee; padding: .1em .3em } td + td { text-align: right; padding-left: 1em }</style>
<h1>warctee</h1>
<p>This is a recording proxy, version {{.Version}}. What passes through it is written to WARC files in <code>{{.Dir}}</code>.</p>
{{with .State}}<p><strong>State: {{.Word}}</strong>{{with .Why}}: {{.}}{{end}}</p>
<table>
{{range .Counts}}<tr><td>{{.Name}}</td><td>{{.N}}</td></tr>
{{end}}</table>
{{end}}<ul>
<li>Set <code>http://{{.Host}}</code> as the HTTP and HTTPS proxy of your browser or program.</li>
<li>Let it trust <a href="/ca.pem">the certificate of this installation</a>; without it https sites show a warning.</li>
<li><a href="/status">Status</a>: all figures of this recording, as JSON.</li>
</ul>
<pre>curl -x http://{{.Host}} --cacert ca.pem https://example.com/</pre>
</html>
`))

func (p Pages) front(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	var state *State // left out where another site has led here: as with the status
	if !isFromOtherSite(r) {
		s := p.State()
		state = &s
	}
	frontPage.Execute(w, struct {
		Pages
		State *State
		Host  string
	}{p, state, r.Host})
}
