package servers

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// certificateLife is how long a test certificate is valid.
const certificateLife = 24 * time.Hour

// Certificate names the PEM files of a certificate for 127.0.0.1 and localhost, and of
// its key. The certificate is its own authority: a client that trusts CertFile accepts it.
type Certificate struct{ CertFile, KeyFile string }

// NewCertificate makes a certificate in dir, which must exist.
func NewCertificate(dir string) (Certificate, error) {
	cert, key, err := selfSigned()
	if err != nil {
		return Certificate{}, fmt.Errorf("making a certificate: %w", err)
	}
	c := Certificate{CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}
	if err := writePEM(c.CertFile, "CERTIFICATE", cert); err != nil {
		return Certificate{}, fmt.Errorf("making a certificate: %w", err)
	}
	if err := writePEM(c.KeyFile, "PRIVATE KEY", key); err != nil {
		return Certificate{}, fmt.Errorf("making a certificate: %w", err)
	}
	return c, nil
}

// selfSigned returns a new certificate and its key in DER.
func selfSigned() (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(now.UnixNano()),
		Subject:               pkix.Name{CommonName: "graphql-limit-count test"},
		NotBefore:             now.Add(-certificateLife),
		NotAfter:              now.Add(certificateLife),
		IPAddresses:           []net.IP{net.ParseIP(loopback)},
		DNSNames:              []string{"localhost"},
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	if cert, err = x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private); err != nil {
		return nil, nil, err
	}
	key, err = x509.MarshalPKCS8PrivateKey(private)
	return cert, key, err
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
