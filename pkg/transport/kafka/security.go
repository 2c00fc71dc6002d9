package kafka

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
)

// security is how connections are encrypted, and how this side proves who it is.
type security struct {
	tls  *tls.Config
	sasl sasl.Mechanism
}

func (c Config) security() (s security, err error) {
	if s.tls, err = c.tlsConfig(); err != nil {
		return s, err
	}
	s.sasl, err = c.mechanism()
	return s, err
}

func (c Config) tlsConfig() (*tls.Config, error) {
	if !c.encrypted() {
		return nil, nil
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CA == "" {
		return t, nil
	}
	pem, err := os.ReadFile(c.CA)
	if err != nil {
		return nil, fmt.Errorf("--kafka-ca: %w", err)
	}
	t.RootCAs = x509.NewCertPool()
	if !t.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--kafka-ca: %s has no certificate in PEM form", c.CA)
	}
	return t, nil
}

func (c Config) mechanism() (sasl.Mechanism, error) {
	if c.SASL == "" {
		if c.User != "" || c.PasswordFile != "" {
			return nil, errors.New("--kafka-user and --kafka-password-file need --kafka-sasl: plain, scram-sha-256 or scram-sha-512")
		}
		return nil, nil
	}
	if c.User == "" || c.PasswordFile == "" {
		return nil, errors.New("--kafka-sasl needs --kafka-user and --kafka-password-file")
	}
	password, err := os.ReadFile(c.PasswordFile)
	if err != nil {
		return nil, fmt.Errorf("--kafka-password-file: %w", err)
	}
	return c.mechanismWith(string(bytes.TrimRight(password, "\r\n")))
}

func (c Config) mechanismWith(password string) (sasl.Mechanism, error) {
	switch c.SASL {
	case "plain":
		return plain.Mechanism{Username: c.User, Password: password}, nil
	case "scram-sha-256":
		return scram.Mechanism(scram.SHA256, c.User, password)
	case "scram-sha-512":
		return scram.Mechanism(scram.SHA512, c.User, password)
	}
	return nil, fmt.Errorf("--kafka-sasl is %q; it must be plain, scram-sha-256 or scram-sha-512", c.SASL)
}
