package bus

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// sieved has a connection read through a sieve. Where there is TLS, the dialling does that
// too: the sieve reads what is encrypted no more.
// What comes by WebSocket has other frames, and is not sieved.
func (f contextFile) sieved(s Settings) []nats.Option {
	switch {
	case s.InProcess != nil:
		return []nats.Option{nats.InProcessServer(sievedServer{s.InProcess, s.MaxHeaders})}
	case strings.Contains(f.URL, "ws://") || strings.Contains(f.URL, "wss://"):
		return nil
	}
	return []nats.Option{nats.SetCustomDialer(&sievedDialer{f, s.MaxHeaders}), nats.SkipHostLookup()}
}

// sievedServer is a server in this process.
type sievedServer struct {
	nats.InProcessConnProvider
	maxLines int
}

func (s sievedServer) InProcessConn() (net.Conn, error) {
	c, err := s.InProcessConnProvider.InProcessConn()
	if err != nil {
		return nil, err
	}
	return newSieve(c, s.maxLines), nil
}

type sievedDialer struct {
	settings contextFile
	maxLines int
}

func (d *sievedDialer) SkipTLSHandshake() bool { return true }

// Dial connects, with TLS where the server has it and either side wants it.
func (d *sievedDialer) Dial(network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	c, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	s, err := d.secure(ctx, c, address)
	if err != nil {
		_ = c.Close() // it is of no use
		return nil, err
	}
	return s, nil
}

// secure makes a connection ready for the client, which reads the server's first line again.
func (d *sievedDialer) secure(ctx context.Context, c net.Conn, address string) (net.Conn, error) {
	if d.settings.TLSFirst {
		encrypted, err := d.encrypt(ctx, c, address)
		return newSieve(encrypted, d.maxLines), err
	}
	deadline, _ := ctx.Deadline()
	if err := c.SetReadDeadline(deadline); err != nil {
		return nil, err
	}
	line, err := readLine(c)
	if err != nil {
		return nil, fmt.Errorf("reading what the server at %s is: %w", address, err)
	}
	if err := c.SetReadDeadline(time.Time{}); err != nil {
		return nil, err
	}
	if d.wantsTLS(line) {
		if c, err = d.encrypt(ctx, c, address); err != nil {
			return nil, err
		}
	}
	s := newSieve(c, d.maxLines)
	s.ready = line
	return s, nil
}

// longestInfo is more than a server says of itself and of the other servers of its cluster.
const longestInfo = 1 << 20

// readLine reads a line, and nothing behind it: that may be encrypted.
func readLine(c net.Conn) (line []byte, err error) {
	one := [1]byte{}
	for len(line) < longestInfo {
		if _, err := c.Read(one[:]); err != nil {
			return nil, err
		}
		if line = append(line, one[0]); one[0] == '\n' {
			return line, nil
		}
	}
	return nil, bufio.ErrBufferFull
}

// wantsTLS reports whether a server's first line asks for TLS, or offers what we ask for. One
// that neither does nor can is the client's to refuse.
func (d *sievedDialer) wantsTLS(line []byte) bool {
	var info struct {
		Required  bool `json:"tls_required"`
		Available bool `json:"tls_available"`
	}
	_, text, ok := bytes.Cut(line, []byte("INFO "))
	if !ok || json.Unmarshal(text, &info) != nil {
		return false
	}
	asked := d.settings.CA != "" || d.settings.Cert != "" || strings.Contains(d.settings.URL, "tls://")
	return info.Required || info.Available && asked
}

func (d *sievedDialer) encrypt(ctx context.Context, c net.Conn, address string) (net.Conn, error) {
	config, err := d.tlsConfig(address)
	if err != nil {
		return nil, err
	}
	encrypted := tls.Client(c, config)
	if err := encrypted.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("%w: %w", nats.ErrTLS, err)
	}
	return encrypted, nil
}

// tlsConfig reads its files each time: they may have been made anew.
func (d *sievedDialer) tlsConfig(address string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: d.serverName(address)}
	if d.settings.CA != "" {
		data, err := os.ReadFile(d.settings.CA)
		if err != nil {
			return nil, fmt.Errorf("reading the TLS CA: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		c.RootCAs.AppendCertsFromPEM(data)
	}
	if d.settings.Cert != "" {
		pair, err := tls.LoadX509KeyPair(d.settings.Cert, d.settings.Key)
		if err != nil {
			return nil, fmt.Errorf("reading the TLS certificate: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// serverName is what the server's certificate has to say: its host, or, of an address that
// a server of the cluster has told, the host that was named first.
func (d *sievedDialer) serverName(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	servers, err := parseServers(d.settings.URL)
	if err != nil || net.ParseIP(host) == nil {
		return host
	}
	named := ""
	for _, s := range servers {
		if s.Hostname() == host {
			return host
		}
		if named == "" && net.ParseIP(s.Hostname()) == nil {
			named = s.Hostname()
		}
	}
	if named != "" {
		return named
	}
	return host
}
