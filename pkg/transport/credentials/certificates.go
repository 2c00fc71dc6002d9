package credentials

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"slices"
	"strings"
	"time"
)

const (
	authorityLasts   = 10 * 365 * 24 * time.Hour
	certificateLasts = 2 * 365 * 24 * time.Hour
	// backdated lets machines in whose clocks are behind.
	backdated = time.Hour
)

// loopbackHosts are in every certificate.
var loopbackHosts = []string{"localhost", "127.0.0.1", "::1"}

func checkHosts(hosts []string) error {
	for _, h := range hosts {
		if h == "" || strings.ContainsAny(h, "/ \t") || strings.Contains(h, ":") && net.ParseIP(h) == nil {
			return fmt.Errorf("host %q is neither a name nor an IP address (there is no scheme and no port in it)", h)
		}
	}
	return nil
}

// makeAuthority makes who signs certificates. Its key stays with the operator's keys.
func (f Folder) makeAuthority() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	c, err := certificate("Switchyard CA", authorityLasts)
	if err != nil {
		return err
	}
	c.IsCA, c.BasicConstraintsValid, c.MaxPathLenZero = true, true, true
	c.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		return err
	}
	return errors.Join(writePEM(f.CA(), "CERTIFICATE", der), writePEM(f.serverCA(), "CERTIFICATE", der), writeKey(f.caKey(), key))
}

// makeCertificate makes the servers', for these hosts and the loopback. In a cluster it is
// also what a server shows to another one.
func (f Folder) makeCertificate(hosts []string) error {
	authority, err := tls.LoadX509KeyPair(f.CA(), f.caKey())
	if err != nil {
		return fmt.Errorf("reading the authority's certificate and key: %w", err)
	}
	c, err := certificate("Switchyard NATS server", certificateLasts)
	if err != nil {
		return err
	}
	c.KeyUsage, c.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	for _, host := range distinct(loopbackHosts, hosts) {
		if ip := net.ParseIP(host); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
		} else {
			c.DNSNames = append(c.DNSNames, host)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.CreateCertificate(rand.Reader, c, authority.Leaf, &key.PublicKey, authority.PrivateKey)
	if err != nil {
		return err
	}
	return errors.Join(writeKey(f.serverKey(), key), writePEM(f.serverCert(), "CERTIFICATE", der))
}

func distinct(lists ...[]string) (all []string) {
	for _, s := range slices.Concat(lists...) {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

func certificate(name string, lasts time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-backdated), NotAfter: now.Add(lasts),
	}, nil
}

func writeKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(path, "PRIVATE KEY", der)
}

func writePEM(path, kind string, der []byte) error {
	return write(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// hosts are those of the server's certificate, beside the loopback's.
func (f Folder) hosts() (hosts []string, err error) {
	data, err := os.ReadFile(f.serverCert())
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("%s has no certificate", f.serverCert())
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", f.serverCert(), err)
	}
	hosts = c.DNSNames
	for _, ip := range c.IPAddresses {
		hosts = append(hosts, ip.String())
	}
	return slices.DeleteFunc(hosts, func(h string) bool { return slices.Contains(loopbackHosts, h) }), nil
}
