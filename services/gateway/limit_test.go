package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/gateway/internal/fake"
)

// open serves a door to so many connections until the test ends, and returns where.
func open(t *testing.T, d *Door, most int) (address string) {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, done := d.server(), make(chan struct{})
	go func() { defer close(done); _ = server.Serve(limit(l, most, false)) }()
	t.Cleanup(func() { _ = server.Close(); <-done })
	return l.Addr().String()
}

// dial opens a connection and sends text.
func dial(t *testing.T, address, text string) net.Conn {
	t.Helper()
	var nd net.Dialer
	c, err := nd.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	return c
}

// One connection too many is told so at once; when another one has gone there is room.
func TestConnectionBound(t *testing.T) {
	address := open(t, newDoor(t, &fake.Upstream{}), 2)
	const ask = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
	first := dial(t, address, ask)
	dial(t, address, ask)
	status := func(c net.Conn) int {
		r, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return 0
		}
		body, _ := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if r.StatusCode == http.StatusServiceUnavailable && !strings.Contains(string(body), "2 connections may be open at this gateway at a time (--http-max-conns)") {
			t.Errorf("refused with %s", body)
		}
		return r.StatusCode
	}
	if got := status(first); got != http.StatusOK {
		t.Fatalf("the first has status %d", got)
	}
	testkit.Eventually(t, "a third one is refused", func() bool { return status(dial(t, address, ask)) == http.StatusServiceUnavailable })
	_ = first.Close()
	testkit.Eventually(t, "there is room again", func() bool { return status(dial(t, address, ask)) == http.StatusOK })
}

func TestConnectionsAndFiles(t *testing.T) {
	s := &Service{config: Config{MaxConns: 1000}}
	s.bare.Logger = newDoor(t, &fake.Upstream{}).Logger
	for _, tc := range []struct {
		files uint64
		want  int
	}{{0, 1000}, {1 << 20, 1000}, {800, 700}, {1 << 63, 1000}, {2, 1}} {
		if got := s.connections(tc.files); got != tc.want {
			t.Errorf("%d files: %d connections, want %d", tc.files, got, tc.want)
		}
	}
}

// Readers that read nothing, headers that never end and connections that send nothing do not keep
// others from their answers; what a slow reader has under way ends when it has stalled.
func TestSlowReadersDisturbNobody(t *testing.T) {
	endless := strings.Repeat("x", 4<<10)
	u := &fake.Upstream{Answer: func(p *pb.Prompt) []*pb.Chunk {
		if p.GetMaxTokens() == 1 {
			return fake.Words(p, "length", "short")
		}
		var words []string
		for range 4000 {
			words = append(words, endless)
		}
		return fake.Words(p, "stop", words...)
	}}
	const slow = 20
	d := newDoor(t, u, func(c *Config) { c.MaxStreams, c.Stall = slow+1, time.Second })
	address := open(t, d, 4*slow)
	for i := range slow {
		body := hi + `,"stream":true}`
		dial(t, address, fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
		dial(t, address, strings.Repeat("GET /v1/models HTTP/1.1\r\nHost: localhost\r\nX: ", i%2))
	}
	testkit.Eventually(t, "the slow ones are under way", func() bool { prompts, _ := u.Asked(); return len(prompts) == slow })
	r, err := post(t.Context(), "http://"+address, hi+`,"max_tokens":1}`)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(r.Body)
	_ = r.Body.Close()
	if !strings.Contains(string(text), "short") {
		t.Errorf("%d %s", r.StatusCode, text)
	}
	testkit.Eventually(t, "stalled readers are left", func() bool { return u.Left() == slow })
}
