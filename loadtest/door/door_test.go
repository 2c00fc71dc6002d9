// Package door puts load on a gateway: a thousand streams, readers that hardly read, connections
// that ask for nothing, and the same requests beside a NATS client. It starts with SWITCHYARD_DOOR=1.
package door

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/loadtest/fleet"
)

func TestMain(m *testing.M) {
	if !attackIfAsked() {
		fleet.Main(m)
	}
}

// yard is a pipeline in one process, and a gateway in another one.
type yard struct {
	up, gateway *fleet.Process
	door, nats  string
	http        *http.Client
}

func start(t *testing.T) *yard {
	t.Helper()
	if os.Getenv("SWITCHYARD_DOOR") == "" {
		t.Skip("set SWITCHYARD_DOOR=1 to run it")
	}
	programs := fleet.Build(t)
	y := &yard{door: testkit.FreeAddr(t), nats: testkit.FreeAddr(t), http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1 << 10}}}
	y.up = fleet.Launch(t, "up", programs+"/switchyard", "up", "--http", "off", "--scaling", "none", "--listen", y.nats)
	y.up.Await(t, "ready")
	y.gateway = fleet.Launch(t, "gateway", programs+"/switchyard", "gateway", "--listen", y.door, "--nats", "nats://"+y.nats)
	y.gateway.Await(t, "ready")
	t.Cleanup(y.http.CloseIdleConnections)
	return y
}

func (y *yard) connect(t *testing.T) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect("nats://" + y.nats)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// told is how a stream went.
type told struct {
	status       int
	first, whole time.Duration
	tokens       int
	// refusal is what the body says if the status is another one than 200, and after when the
	// client is told to come again.
	refusal string
	after   time.Duration
}

// stream asks for tokens of one answer, and reads it to its end.
func (y *yard) stream(ctx context.Context, tokens int) (s told, err error) {
	began := time.Now()
	body := fmt.Sprintf(`{"model":"demo","prompt":"Once upon a time","max_tokens":%d,"ignore_eos":true,"stream":true,"stream_options":{"include_usage":true}}`, tokens)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+y.door+"/v1/completions", strings.NewReader(body))
	if err != nil {
		return s, err
	}
	answer, err := y.http.Do(r)
	if err != nil {
		return s, err
	}
	defer func() { _ = answer.Body.Close() }() // it is read only
	if s.status = answer.StatusCode; s.status != http.StatusOK {
		page, err := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
		seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After")) // 0 where there is none
		s.refusal, s.after = string(page), time.Duration(seconds)*time.Second
		return s, err
	}
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		if !bytes.HasPrefix(lines.Bytes(), []byte("data: {")) {
			continue
		}
		if s.first == 0 {
			s.first = time.Since(began)
		}
		if _, count, is := strings.Cut(lines.Text(), `"completion_tokens":`); is {
			count, _, _ = strings.Cut(count, ",")
			s.tokens, err = strconv.Atoi(count)
		}
	}
	s.whole = time.Since(began)
	return s, err
}

// memory is what a process has of it, in MB of a million bytes.
func memory(t *testing.T, p *fleet.Process) float64 {
	t.Helper()
	page, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil {
		t.Skipf("resident memory is known on Linux alone: %v", err)
	}
	for line := range strings.Lines(string(page)) {
		if rest, is := strings.CutPrefix(line, "VmRSS:"); is {
			kilobytes, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			if err != nil {
				t.Fatal(err)
			}
			return kilobytes * 1024 / 1e6
		}
	}
	t.Fatal("there is no VmRSS")
	return 0
}

// dial opens a connection, sends text, and leaves it open until the test ends.
func (y *yard) dial(t *testing.T, text string) net.Conn {
	t.Helper()
	var d net.Dialer
	c, err := d.DialContext(t.Context(), "tcp", y.door)
	if err == nil {
		_, err = c.Write([]byte(text))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // the gateway may have closed it
	return c
}
