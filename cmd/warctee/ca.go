package main

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/warctee/warctee/certs"
)

// expiryWarning is how long before its end a certificate authority is talked about.
const expiryWarning = 30 * 24 * time.Hour

// warnOfExpiry says when the certificate that clients trust is about to expire.
func warnOfExpiry(log *slog.Logger, cert *x509.Certificate) {
	if time.Until(cert.NotAfter) < expiryWarning {
		log.Warn("the certificate of the certificate authority expires soon: run warctee ca renew, and let the clients trust the new one (warctee ca trust)",
			"expires", cert.NotAfter.Format(time.DateOnly))
	}
}

// A caCommand looks after the certificate authority.
type caCommand struct {
	dir string
	out string // of der
}

func newCACommand() *cobra.Command {
	c := &caCommand{}
	cmd := &cobra.Command{
		Use:   "ca",
		Short: "Show, export, renew and trust the certificate authority",
		Long: `Look after the certificate authority of this installation. Browsers and programs
have to trust its certificate, or they refuse https through the proxy. It is made
when it is first asked for.

Whoever has its key can impersonate every site to those who trust it: no command
prints it.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	text(cmd.PersistentFlags(), &c.dir, "ca-dir", "DIR", "directory with the certificate authority; made when missing (default: warctee in the user's config directory)")
	cobra.CheckErr(cmd.MarkPersistentFlagDirname("ca-dir"))
	der := c.subcommand("der", "Export the certificate in DER, which Windows and Android like", noArgs, c.der)
	c.out = "-"
	text(der.Flags(), &c.out, "out", "FILE", "new file; - is standard output")
	trust := c.subcommand("trust [PLACE]", "Tell how to trust the certificate in "+strings.Join(placeNames(), ", "), onePlace, c.trust)
	trust.ValidArgs = asCompletions(placeNames())
	cmd.AddCommand(
		c.subcommand("path", "Print the name of the file with the certificate", noArgs, c.path),
		c.subcommand("pem", "Print the certificate in PEM", noArgs, c.pem),
		der,
		c.subcommand("spki", "Print the SHA-256 of the public key in base64, as Chromium wants it", noArgs, c.spki),
		c.subcommand("fingerprint", "Print the SHA-256 of the certificate in hex, as browsers show it", noArgs, c.fingerprint),
		c.subcommand("info", "Print names, validity and hashes of the certificate", noArgs, c.info),
		c.renewCommand(),
		trust,
	)
	return cmd
}

// subcommand is a command that looks at the certificate.
func (c *caCommand) subcommand(use, short string, args cobra.PositionalArgs, show func(out io.Writer, cert *x509.Certificate, args []string) error) *cobra.Command {
	return &cobra.Command{
		Use:     use,
		Short:   short,
		Args:    args,
		PreRunE: func(cmd *cobra.Command, _ []string) error { return fromEnvironment(cmd.Flags()) },
		RunE: func(cmd *cobra.Command, args []string) error {
			cert, err := c.certificate()
			if err != nil {
				return err
			}
			return show(cmd.OutOrStdout(), cert, args)
		},
	}
}

func (c *caCommand) renewCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "renew",
		Short: "Make a new certificate for the same key",
		Long: `Make a new certificate for the same key, valid from now on, under the same name.
The old one is kept beside it. A running warctee uses the new one from its next
start.

Clients that trust the old certificate go on working until that expires; let them
trust the new one before then (warctee ca trust). The hash that warctee ca spki
prints stays the same.

When the key has leaked, do not renew: move the directory away, remove the
certificate from wherever it is trusted, and trust the new authority that is made.`,
		Args:    noArgs,
		PreRunE: func(cmd *cobra.Command, _ []string) error { return fromEnvironment(cmd.Flags()) },
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.renew(cmd.OutOrStdout()) },
	}
}

// certificate reads the certificate, or makes an authority where there is none.
// One that has expired can be looked at all the same.
func (c *caCommand) certificate() (*x509.Certificate, error) {
	if err := c.locate(); err != nil {
		return nil, err
	}
	cert, err := certs.Read(c.dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return cert, err
	}
	a, err := certs.Open(c.dir)
	if err != nil {
		return nil, err
	}
	return a.Certificate(), nil
}

// locate makes dir the absolute name of the directory.
func (c *caCommand) locate() error {
	dir, err := defaultCADir(c.dir)
	if err != nil {
		return err
	}
	c.dir, err = filepath.Abs(dir)
	return err
}

func (c *caCommand) file() string { return filepath.Join(c.dir, "ca.pem") }

func (c *caCommand) path(out io.Writer, _ *x509.Certificate, _ []string) error {
	_, err := fmt.Fprintln(dataWriter(out), c.file())
	return err
}

func (c *caCommand) pem(out io.Writer, cert *x509.Certificate, _ []string) error {
	return pem.Encode(dataWriter(out), &pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
}

// der writes a new file only: a slip must not cost somebody a key.
func (c *caCommand) der(out io.Writer, cert *x509.Certificate, _ []string) error {
	if c.out == "-" {
		_, err := dataWriter(out).Write(cert.Raw)
		return err
	}
	f, err := os.OpenFile(c.out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(cert.Raw)
	return errors.Join(err, f.Close())
}

func (c *caCommand) spki(out io.Writer, cert *x509.Certificate, _ []string) error {
	_, err := fmt.Fprintln(out, spkiHash(cert))
	return err
}

func (c *caCommand) fingerprint(out io.Writer, cert *x509.Certificate, _ []string) error {
	_, err := fmt.Fprintln(out, fingerprint(cert))
	return err
}

func fingerprint(cert *x509.Certificate) string {
	return strings.ReplaceAll(fmt.Sprintf("% X", sha256.Sum256(cert.Raw)), " ", ":")
}

func (c *caCommand) info(out io.Writer, cert *x509.Certificate, _ []string) error {
	key := cert.PublicKeyAlgorithm.String()
	if k, ok := cert.PublicKey.(*ecdsa.PublicKey); ok {
		key += " " + k.Params().Name
	}
	left := "expired"
	if d := time.Until(cert.NotAfter); d > 0 {
		left = fmt.Sprintf("%d days left", d/(24*time.Hour))
	}
	_, err := fmt.Fprintf(out, `file:        %s
name:        %s
serial:      %x
valid from:  %s
valid until: %s (%s)
key:         %s
SHA-256:     %s
SPKI:        %s
`, harmless(c.file()), harmless(cert.Subject.String()), cert.SerialNumber, cert.NotBefore.UTC().Format(time.RFC3339), cert.NotAfter.UTC().Format(time.RFC3339), left, key, fingerprint(cert), spkiHash(cert))
	return err
}

func (c *caCommand) renew(out io.Writer) error {
	if err := c.locate(); err != nil {
		return err
	}
	backup, err := certs.Renew(c.dir)
	if err != nil {
		return err
	}
	cert, err := certs.Read(c.dir)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, `%s is valid until %s. The old certificate is kept as %s.
Key and name are the same. Let clients trust the new certificate before the old one expires
(see warctee ca trust), and start a running warctee anew.
`, harmless(c.file()), cert.NotAfter.Format(time.DateOnly), harmless(backup))
	return err
}
