package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// An environment leads a command through the proxy.
type environment struct {
	proxy     string            // URL
	authority *x509.Certificate // to be trusted
	dir       string            // for the files that variables name
	log       *slog.Logger
}

// bundleVariables name a file of root certificates that replaces the usual ones.
var bundleVariables = []string{"SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "GIT_SSL_CAINFO"}

// ownBundleVariables do so too, for one program each, which asks one of the
// others as well. One that is set would hide ours.
var ownBundleVariables = []string{"PIP_CERT", "AWS_CA_BUNDLE", "CARGO_HTTP_CAINFO", "NIX_SSL_CERT_FILE"}

// removedVariables would lead past the proxy.
var removedVariables = []string{"no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY"}

// rootFiles are where systems keep their root certificates.
var rootFiles = []string{
	"/etc/ssl/certs/ca-certificates.crt",                // Debian, Arch
	"/etc/pki/tls/certs/ca-bundle.crt",                  // Fedora
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // newer Fedora
	"/etc/ssl/ca-bundle.pem",                            // openSUSE
	"/etc/ssl/cert.pem",                                 // Alpine, macOS, OpenBSD
	"/usr/local/share/certs/ca-root-nss.crt",            // FreeBSD
}

// build writes the files and returns the variables, made from those in base.
func (e *environment) build(base []string) ([]string, error) {
	bundle, err := e.write("roots.pem", e.roots(get(base, "SSL_CERT_FILE")), e.certificate())
	if err != nil {
		return nil, err
	}
	node, err := e.write("node.pem", e.read(get(base, "NODE_EXTRA_CA_CERTS")), e.certificate())
	if err != nil {
		return nil, err
	}
	wgetrc, err := e.write("wgetrc", e.read(cmp.Or(get(base, "WGETRC"), inHome(base, ".wgetrc"))), fmt.Appendf(nil,
		"ca_certificate = %s\nuse_proxy = on\nhttp_proxy = %s\nhttps_proxy = %s\nno_proxy =\n", bundle, e.proxy, e.proxy))
	if err != nil {
		return nil, err
	}
	set := []string{
		"http_proxy=" + e.proxy, "https_proxy=" + e.proxy,
		"HTTP_PROXY=" + e.proxy, "HTTPS_PROXY=" + e.proxy,
		"NODE_EXTRA_CA_CERTS=" + node, "NODE_USE_ENV_PROXY=1",
		"WGETRC=" + wgetrc,
		"WARCTEE_CHROMIUM_FLAGS=" + strings.Join(e.chromiumFlags(), " "),
		"WARCTEE_CHROMIUM_FLAGS_NO_PROFILE=" + strings.Join(chromiumFlags(e.proxy, e.authority), " "),
	}
	for _, name := range bundleVariables {
		set = append(set, name+"="+bundle)
	}
	for _, name := range ownBundleVariables {
		if get(base, name) != "" {
			set = append(set, name+"="+bundle)
		}
	}
	env := slices.Clone(base)
	for _, v := range slices.Concat(set, removedVariables) {
		name, _, _ := strings.Cut(v, "=")
		env = slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, name+"=") })
	}
	return append(env, set...), nil
}

// chromiumFlags are the flags of the function of that name, and a profile in a
// temporary directory, without which Chromium ignores the key.
func (e *environment) chromiumFlags() []string {
	return append(chromiumFlags(e.proxy, e.authority), "--user-data-dir="+filepath.Join(e.dir, "chromium"))
}

// chromiumFlags make Chromium use the proxy, also for this machine's own
// addresses, and trust our key, if its profile is not the default one. They keep it
// from asking for anything that no page asks for. None of them changes what a page
// gets.
func chromiumFlags(proxy string, authority *x509.Certificate) []string {
	return []string{
		"--proxy-server=" + proxy,
		"--proxy-bypass-list=<-loopback>",
		"--ignore-certificate-errors-spki-list=" + spkiHash(authority),
		"--no-first-run",
		"--no-default-browser-check",
		"--disable-background-networking",
		"--disable-component-update",
		"--disable-default-apps",
		"--disable-sync",
		// The time (clients2.google.com), hints and models for pages
		// (optimizationguide-pa.googleapis.com).
		"--disable-features=NetworkTimeServiceQuerying,OptimizationHints,OptimizationGuideModelDownloading",
		// There is no switch for these two, which ask update.googleapis.com and
		// accounts.google.com: they get URLs with a port that Chromium never
		// connects to, nor asks a proxy for.
		"--component-updater=url-source=http://127.0.0.1:9/",
		"--gaia-url=https://localhost:9",
	}
}

// spkiHash is the SHA-256 of the public key (SubjectPublicKeyInfo), in base64.
func spkiHash(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	return base64.StdEncoding.EncodeToString(sum[:])
}

func (e *environment) certificate() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: e.authority.Raw})
}

// roots returns the certificates that the user trusts: those in file, or else
// the system's. Without any the command still trusts the proxy, and all goes
// through that.
func (e *environment) roots(file string) []byte {
	if file != "" {
		return e.read(file)
	}
	for _, file := range rootFiles {
		if b, err := os.ReadFile(file); err == nil {
			return b
		}
	}
	return nil
}

// read returns the content of a file of the user, nothing when there is none.
func (e *environment) read(file string) []byte {
	if file == "" {
		return nil
	}
	b, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		e.log.Warn("a file that the environment names cannot be read; the command goes without it", "error", err)
	}
	return b
}

// write makes a file that only the user can read (it may hold passwords) and
// returns its name.
func (e *environment) write(name string, parts ...[]byte) (string, error) {
	var content []byte
	for _, p := range parts {
		if content = append(content, p...); len(p) > 0 && !bytes.HasSuffix(p, []byte("\n")) {
			content = append(content, '\n')
		}
	}
	name = filepath.Join(e.dir, name)
	return name, os.WriteFile(name, content, fs.FileMode(0o600))
}

func get(env []string, name string) string {
	for _, v := range slices.Backward(env) {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

func inHome(env []string, name string) string {
	if home := get(env, "HOME"); home != "" {
		return filepath.Join(home, name)
	}
	return ""
}
