package bus

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/transport/natsserver"
)

// wire is a server's connection of which only reading matters.
type wire struct {
	net.Conn
	io.Reader
}

func (w wire) Read(p []byte) (int, error) { return w.Reader.Read(p) }

// headerLines are so many lines, of a length each.
func headerLines(lines, length int) string {
	var b strings.Builder
	b.WriteString("NATS/1.0\r\n")
	for i := range lines {
		fmt.Fprintf(&b, "%0*x:\r\n", length, i)
	}
	return b.String() + "\r\n"
}

func hmsg(to, header, body string) string {
	return fmt.Sprintf("HMSG %s %d %d\r\n%s%s\r\n", to, len(header), len(header)+len(body), header, body)
}

// sift reads all through a sieve, in one way and byte by byte.
func sift(t *testing.T, text string, maxLines int) string {
	t.Helper()
	whole, err := io.ReadAll(newSieve(wire{Reader: strings.NewReader(text)}, maxLines))
	if err != nil {
		t.Fatal(err)
	}
	slow, err := io.ReadAll(newSieve(wire{Reader: iotest.OneByteReader(strings.NewReader(text))}, maxLines))
	if err != nil || !bytes.Equal(whole, slow) {
		t.Errorf("read slowly it is %.200q, not %.200q (%v)", slow, whole, err)
	}
	return string(whole)
}

// What a server sends comes as it is, but for messages with too many headers: of them
// there is only that they came, and what is behind them comes.
func TestSieve(t *testing.T) {
	const after = "PING\r\n"
	left := func(to string) string { return hmsg(to, string(cutHead), "") }
	for _, tc := range []struct{ name, text, want string }{
		{"no message", "INFO {}\r\n+OK\r\n-ERR 'x'\r\n", ""},
		{"no headers", "MSG a 1 5\r\nMSG \r\n", ""},
		{"empty", "MSG a 1 reply 0\r\n\r\n", ""},
		{"a body like a frame", "MSG a 1 12\r\nHMSG a 1 9 9\r\n", ""},
		{"some headers", hmsg("a 1", headerLines(8, 5), "body"), ""},
		{"status", hmsg("a 1", "NATS/1.0 503\r\n\r\n", ""), ""},
		{"as many as may", hmsg("a 1 r", headerLines(8, 5000), "body"), ""},
		{"one more", hmsg("a 1", headerLines(9, 5), "body"), left("a 1")},
		{"one more, with a reply", hmsg("a 1 r.x", headerLines(9, 5), "body"), left("a 1 r.x")},
		{"very many", hmsg("a 1", headerLines(100_000, 5), strings.Repeat("x", 100_000)), left("a 1")},
		{"a long one", hmsg("a 1", headerLines(1, maxHeaderBytes), "body"), left("a 1")},
		{"a long first line", "INFO " + strings.Repeat("x", 3*longestLine) + "\r\n", ""},
		{"no sizes", "HMSG a 1 x y\r\n", ""},
		{"more headers than message", "HMSG a 1 9 3\r\n", ""},
	} {
		want := tc.want
		if want == "" {
			want = tc.text
		}
		if got := sift(t, tc.text+after, 8); got != want+after {
			t.Errorf("%s: %.200q", tc.name, got)
		}
	}
}

// A flood of messages with a hundred thousand headers each is read as one of
// messages that have come, and others come between them.
func TestSievedConnection(t *testing.T) {
	srv, err := natsserver.Start(natsserver.Settings{StoreDir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Shutdown)
	for _, s := range []Settings{{MaxHeaders: 8}, {MaxHeaders: 8, InProcess: srv}} {
		c, err := Connect(t.Context(), Config{URL: srv.URL()}, s)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		got := make(chan *nats.Msg, 8)
		if _, err := c.Subscribe("a", "", func(m *nats.Msg) { got <- m }); err != nil {
			t.Fatal(err)
		}
		if err := c.Listening(t.Context(), "listening"); err != nil {
			t.Fatal(err)
		}
		many := nats.NewMsg("a")
		for i := range 100_000 {
			many.Header[fmt.Sprint(i)] = []string{""}
		}
		few := &nats.Msg{Subject: "a", Reply: "r", Data: []byte("body"), Header: nats.Header{"X": {"1", "2"}}}
		sender := plainClient(t, srv)
		for _, m := range []*nats.Msg{many, few} {
			if err := sender.PublishMsg(m); err != nil {
				t.Fatal(err)
			}
		}
		if m := <-got; !Cut(m) || len(m.Data) > 0 {
			t.Errorf("of many headers there are %d, and %d bytes", len(m.Header), len(m.Data))
		}
		if m := <-got; Cut(m) || m.Reply != "r" || string(m.Data) != "body" || len(m.Header["X"]) != 2 {
			t.Errorf("%+v", m)
		}
	}
}

func plainClient(t *testing.T, srv *natsserver.Server) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(srv.URL(), nats.Timeout(testkit.Patience))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// Whatever comes, the sieve ends with it, and passes no message on that has too many headers.
func FuzzSieve(f *testing.F) {
	for _, text := range []string{
		"PING\r\n", "MSG a 1 3\r\nabc\r\n", hmsg("a 1", headerLines(9, 2), "x") + "PONG\r\n", hmsg("a 1 r", headerLines(1, 2), "x"),
		"HMSG a 1 2147483648 1\r\n", "HMSG  \r\n", "HMSG a 1 5 3\r\n", "MSG a 1 -1\r\n", "HMSG a 1 10 100\r\nNATS/1.0\r\n",
	} {
		f.Add([]byte(text), uint8(4))
	}
	f.Fuzz(func(t *testing.T, data []byte, lines uint8) {
		out, err := io.ReadAll(newSieve(wire{Reader: bytes.NewReader(data)}, int(lines)))
		if err == nil && len(out) > len(data)+len(cutHead)*(1+bytes.Count(data, []byte("HMSG "))) {
			t.Errorf("%d bytes became %d", len(data), len(out))
		}
	})
}
