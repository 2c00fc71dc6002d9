package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
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

const askHealth = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"

// statusOf is the status of what comes by a connection, and its body; 0: nothing comes.
func statusOf(c net.Conn) (status int, body string) {
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, ""
	}
	text, _ := io.ReadAll(r.Body)
	_ = r.Body.Close()
	return r.StatusCode, string(text)
}

// One connection too many is told so at once; when another one has gone there is room.
func TestConnectionBound(t *testing.T) {
	u := &fake.Upstream{Holds: make(chan struct{})}
	address := open(t, newDoor(t, u), 4)
	var busy []net.Conn
	for range 2 { // half of them
		busy = append(busy, dial(t, address, fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s}", len(hi)+1, hi)))
	}
	testkit.Eventually(t, "both are asked", func() bool { prompts, _ := u.Asked(); return len(prompts) == 2 })
	status, body := statusOf(dial(t, address, askHealth))
	if status != http.StatusServiceUnavailable || !strings.Contains(body, "4 connections may be open at this gateway at a time (--http-max-conns), at most half of them of one address or tenant") {
		t.Errorf("a third one is answered with %d %s", status, body)
	}
	_ = busy[0].Close()
	testkit.Eventually(t, "there is room again", func() bool { status, _ := statusOf(dial(t, address, askHealth)); return status == http.StatusOK })
	close(u.Holds)
}

// However many connections have no request, or one whose headers do not end, who comes is answered.
func TestIdleConnectionsMakeRoom(t *testing.T) {
	address := open(t, newDoor(t, &fake.Upstream{}), 8)
	for _, text := range []string{"", "G", "GET /healthz HTTP/1.1\r\nX: ", askHealth} {
		for range 8 {
			dial(t, address, text)
		}
		if status, _ := statusOf(dial(t, address, askHealth)); status != http.StatusOK {
			t.Errorf("behind connections that have sent %q: %d", text, status)
		}
	}
}

// peer is a connection from an address.
type peer struct {
	net.Conn
	from   string
	closed bool
}

func (p *peer) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(p.from)) }
func (p *peer) Close() error         { p.closed = true; return nil }

// Of connections without a request those go first whose clients have shown no key, and of these the
// one that is idle for longest; those with a request stay.
func TestWhichConnectionGoes(t *testing.T) {
	l := limit(nil, 8, true)
	var all []*peer
	var own []*counted
	come := func(from string) *counted {
		all = append(all, &peer{from: from})
		own = append(own, l.admit(all[len(all)-1]))
		return own[len(own)-1]
	}
	for i := range 4 { // of one address: half of all
		c := come(fmt.Sprintf("192.0.2.1:%d", i+1))
		l.note(c, http.StateActive)
		if i == 0 {
			l.knows(c, "")
		}
	}
	if come("192.0.2.1:5") != nil {
		t.Error("an address has more than half of all, though none is idle")
	}
	for _, i := range []int{0, 2, 1} {
		l.note(own[i], http.StateIdle)
	}
	for n, want := range []int{2, 1} { // then the new ones are idle
		if c := come(fmt.Sprintf("192.0.2.1:%d", n+6)); c == nil || !all[want].closed {
			t.Fatalf("the %d. that comes: %v, of all %+v", n, c, all)
		}
		l.note(own[len(own)-1], http.StateActive)
	}
	if all[0].closed || all[3].closed {
		t.Error("one with a key, or with a request, went before others")
	}
	if come("192.0.2.1:9") == nil || !all[0].closed {
		t.Error("one with a key, without a request, keeps others out")
	}
	for n := range 9 { // others find room
		if c := come(fmt.Sprintf("[2001:db8:0:%d::1]:1", n)); c == nil {
			t.Fatalf("the %d. address has no room", n)
		}
	}
	if a, b := addressOf(&net.TCPAddr{IP: net.ParseIP("2001:db8::1")}), addressOf(&net.TCPAddr{IP: net.ParseIP("2001:db8::ffff:1")}); a != b {
		t.Errorf("%v and %v are one network", a, b)
	}
	for _, c := range own {
		if c != nil {
			_ = c.Close()
		}
	}
	if l.share.Had() != 0 || !l.idle.empty() || len(l.of) != 0 {
		t.Errorf("%d are open, %v idle", l.share.Had(), l.of)
	}
}

// A tenant has at most half of the connections, from wherever they come, and those who share its address
// find room; so do they beside bodies of which nothing comes.
func TestConnectionsOfTenants(t *testing.T) {
	u := &fake.Upstream{Holds: make(chan struct{})}
	address := open(t, sharedDoor(t, u, func(c *Config) { c.MaxStreams, c.MaxConns = 100, 100 }), 16)
	asks := func(tenant, rest string) net.Conn {
		return dial(t, address, fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s%s", tenant, len(hi)+1, hi, rest))
	}
	for range 8 {
		asks("acme", "}")
	}
	testkit.Eventually(t, "half of all are asked", func() bool { prompts, _ := u.Asked(); return len(prompts) == 8 })
	if status, body := statusOf(asks("acme", "}")); status != http.StatusTooManyRequests || !strings.Contains(body, "the tenant has as many connections as it may") {
		t.Errorf("one more of the tenant: %d %s", status, body)
	}
	for range 12 {
		asks("acme", "") // which do not end
	}
	asks("beta", "}")
	testkit.Eventually(t, "another tenant is asked", func() bool { prompts, _ := u.Asked(); return len(prompts) == 9 })
	for range 20 {
		asks("beta", "") // nor these
	}
	asks("default", "}")
	testkit.Eventually(t, "a third one is asked", func() bool { prompts, _ := u.Asked(); return len(prompts) == 10 })
	close(u.Holds)
}

// What of a body nobody reads does not keep its connection open.
func TestUnreadBodiesEnd(t *testing.T) {
	d := newDoor(t, &fake.Upstream{}, func(c *Config) { c.Stall = time.Second })
	address := open(t, d, 64)
	var all []net.Conn
	for _, head := range []string{"POST /v1/chat/completions", "GET /v1/models", "POST /v1/nothing", "PUT /v1/models", "POST /healthz", "POST /tokenize"} {
		for _, more := range []string{"Content-Length: 1000\r\n\r\n{", "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", "Content-Length: 1000\r\nContent-Encoding: br\r\n\r\n", "Content-Length: 1000\r\nContent-Encoding: deflate\r\n\r\n" + packed(t, "deflate", hi+"}")} {
			all = append(all, dial(t, address, head+" HTTP/1.1\r\nHost: localhost\r\n"+more))
		}
	}
	for i, c := range all {
		if status, _ := statusOf(c); status == 0 {
			t.Errorf("%d: no answer", i)
		}
	}
}

// clock is a client's connection that notes until when it may be read.
type clock struct {
	http.ResponseWriter
	until time.Time
}

func (c *clock) SetReadDeadline(at time.Time) error { c.until = at; return nil }

// The time for a body grows with what has come of it; one of which nothing comes has less.
func TestPaceOfBodies(t *testing.T) {
	for _, tc := range []struct {
		came        int64
		since, want time.Duration
	}{
		{0, 0, 10 * time.Second}, {1000, 25 * time.Second, 5 * time.Second}, {0, 31 * time.Second, -time.Second},
		{64 * leastRate, 50 * time.Second, 10 * time.Second}, {64 * leastRate, 90 * time.Second, 4 * time.Second}, {64 * leastRate, 95 * time.Second, -time.Second},
	} {
		c := &clock{}
		p := &paced{ReadCloser: http.NoBody, control: http.NewResponseController(c), stall: 30 * time.Second, began: time.Now().Add(-tc.since), came: tc.came}
		before := time.Now()
		_, _ = p.Read(nil)
		if got := c.until.Sub(before).Round(time.Second / 2); got != tc.want {
			t.Errorf("%d bytes in %v: %v left, want %v", tc.came, tc.since, got, tc.want)
		}
	}
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
