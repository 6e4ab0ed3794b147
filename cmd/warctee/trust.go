package main

import (
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// A place is where a certificate authority can be trusted.
type place struct{ name, text string }

// places are in docs/trust.md too. {file} is the certificate, {name} its name,
// both ready for a POSIX shell; {winfile} the file for Windows' shells; {der}
// the certificate in base64.
var places = []place{
	{"chromium", `Chromium and Chrome on Linux

  For one run, without trusting it anywhere (see also warctee run):
    chromium --ignore-certificate-errors-spki-list={spki} --user-data-dir=DIR …
  For your user (certutil is in libnss3-tools or nss-tools):
    mkdir -p ~/.pki/nssdb
    certutil -d sql:$HOME/.pki/nssdb -A -t C,, -n {name} -i {file}
  and no longer:
    certutil -d sql:$HOME/.pki/nssdb -D -n {name}
  For all users by policy (Chromium; Chrome reads /etc/opt/chrome/policies/managed):
    sudo mkdir -p /etc/chromium/policies/managed
    echo '{"CACertificates": ["{der}"]}' |
      sudo tee /etc/chromium/policies/managed/warctee.json
  and no longer:
    sudo rm /etc/chromium/policies/managed/warctee.json
`},
	{"firefox", `Firefox

  Settings, Privacy & Security, Certificates, View Certificates, Authorities, Import: choose
    {file}
  and tick "Trust this CA to identify websites". Better in a profile of its own:
    firefox -CreateProfile recording; firefox -P recording
  From a shell, while Firefox is closed (PROFILE: see about:profiles):
    certutil -d sql:PROFILE -A -t C,, -n {name} -i {file}
  and no longer:
    certutil -d sql:PROFILE -D -n {name}
`},
	{"debian", `Debian and Ubuntu: curl, wget, git, Python and others, for all users

    sudo cp {file} /usr/local/share/ca-certificates/warctee.crt
    sudo update-ca-certificates
  and no longer:
    sudo rm /usr/local/share/ca-certificates/warctee.crt
    sudo update-ca-certificates --fresh
`},
	{"fedora", `Fedora, RHEL and their kin: all programs that use the system's roots

    sudo cp {file} /etc/pki/ca-trust/source/anchors/warctee.pem
    sudo update-ca-trust
  and no longer:
    sudo rm /etc/pki/ca-trust/source/anchors/warctee.pem
    sudo update-ca-trust
`},
	{"macos", `macOS: Safari, Chrome and others

  For your user:
    security add-trusted-cert -r trustRoot -k ~/Library/Keychains/login.keychain-db {file}
  For all users:
    sudo security add-trusted-cert -d -r trustRoot -k /Library/Keychains/System.keychain {file}
  and no longer (-d for all users):
    security remove-trusted-cert {file}
`},
	{"windows", `Windows: Edge, Chrome and others

  For your user:
    certutil -user -addstore Root {winfile}
  For all users, as administrator:
    certutil -addstore Root {winfile}
  and no longer (-user as above):
    certutil -user -delstore Root {serial}
`},
}

func placeNames() []string {
	names := make([]string, len(places))
	for i, p := range places {
		names[i] = p.name
	}
	return names
}

// onePlace allows the name of a place as the only argument.
func onePlace(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) > 1:
		return usageError{fmt.Errorf("%s takes one place at most, but got %q too", cmd.CommandPath(), args[1])}
	case len(args) == 1 && !slices.Contains(placeNames(), args[0]):
		return usageError{fmt.Errorf("%q is not one of %s", args[0], strings.Join(placeNames(), ", "))}
	}
	return nil
}

func (c *caCommand) trust(out io.Writer, cert *x509.Certificate, args []string) error {
	text := strings.NewReplacer(
		"{file}", harmless(shellQuote(c.file())),
		"{winfile}", `"`+harmless(c.file())+`"`,
		"{name}", harmless(shellQuote(cert.Subject.CommonName)),
		"{serial}", fmt.Sprintf("%x", cert.SerialNumber),
		"{spki}", spkiHash(cert),
		"{der}", base64.StdEncoding.EncodeToString(cert.Raw),
	)
	var b strings.Builder
	for _, p := range places {
		if len(args) == 0 || args[0] == p.name {
			fmt.Fprintf(&b, "%s\n", text.Replace(p.text))
		}
	}
	b.WriteString("Whoever has the key beside the certificate can impersonate every site to those who trust it.\n")
	_, err := io.WriteString(out, b.String())
	return err
}
