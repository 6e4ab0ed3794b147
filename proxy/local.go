package proxy

import (
	"encoding/json"
	"html/template"
	"net/http"
)

// Pages are what the proxy shows to somebody who opens its own address.
type Pages struct {
	CACertificate []byte     // PEM
	Status        func() any // becomes JSON; must hold no secrets
	Version       string
	Dir           string // of the archive
}

// Handler serves /, /ca.pem and /status to requests that are for the proxy
// itself.
func (p Pages) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", p.front)
	mux.HandleFunc("GET /ca.pem", p.certificate)
	mux.HandleFunc("GET /status", p.status)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		answer(w, refuse(http.StatusNotFound, "this is a proxy: set it as the HTTP proxy of your program, or open / for help"))
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
		mux.ServeHTTP(w, r)
	})
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
<style>body { font: 16px/1.5 sans-serif; max-width: 40em; margin: 3em auto; padding: 0 1em } code { background: #eee; padding: .1em .3em }</style>
<h1>warctee</h1>
<p>This is a recording proxy, version {{.Version}}. What passes through it is written to WARC files in <code>{{.Dir}}</code>.</p>
<ul>
<li>Set <code>http://{{.Host}}</code> as the HTTP and HTTPS proxy of your browser or program.</li>
<li>Let it trust <a href="/ca.pem">the certificate of this installation</a>; without it https sites show a warning.</li>
<li><a href="/status">Status</a>: what has been recorded so far, as JSON.</li>
</ul>
<pre>curl -x http://{{.Host}} --cacert ca.pem https://example.com/</pre>
</html>
`))

func (p Pages) front(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	frontPage.Execute(w, struct {
		Pages
		Host string
	}{p, r.Host})
}
