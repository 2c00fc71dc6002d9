package door

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/loadtest/fleet"
)

const (
	// envAttack and envDoor tell a process of this program what it does, and to whom.
	envAttack, envDoor = "SWITCHYARD_ATTACK", "SWITCHYARD_ATTACKED"
	// asked are how many answers of the victim a median is of; warm is how long an attack goes on before.
	asked, warm = 20, 5 * time.Second
	// settled is how long after an attack memory is looked at again.
	settled = 5 * time.Second
	// mostHarmless bounds the clients of the harmless load.
	mostHarmless = 64
)

// attack is what so many clients do again and again.
type attack struct {
	name    string
	clients int
	path    string
	body    func() string
	// silent clients leave what is answered unread, and do not end what they send.
	silent, keyless, unended bool
}

const (
	completionsPath, chatsPath = "/v1/completions", "/v1/chat/completions"
	largeBody                  = 3900 << 10
)

func listOf(one string, n int) string { return strings.TrimSuffix(strings.Repeat(one+",", n), ",") }

func always(body string) func() string { return func() string { return body } }

var attacks = []attack{
	{name: "parts `{}`", clients: 24, path: chatsPath, body: func() string {
		return `{"model":"demo","messages":[{"role":"user","content":[` + listOf("{}", largeBody/3) + `]}]}`
	}},
	{name: "empty prompts", clients: 8, path: completionsPath, body: func() string { return `{"model":"demo","prompt":[` + listOf(`""`, largeBody/3) + `]}` }},
	{name: "2,000 prompts, 60,000 stops", clients: 8, path: completionsPath, body: func() string {
		return `{"model":"demo","prompt":[` + listOf(`""`, 2000) + `],"stop":[` + listOf(`""`, 60000) + `]}`
	}},
	{name: "n 128 of 1.2 million ids", clients: 4, path: completionsPath, body: func() string { return `{"model":"demo","n":128,"prompt":[` + listOf("1", 1200000) + `]}` }},
	{name: "the same, 300,000 biases", clients: 4, path: completionsPath, body: func() string {
		return `{"model":"demo","n":128,"prompt":[` + listOf("1", 300000) + `],"logit_bias":{` + listOf(`"5":1`, 300000) + `}}`
	}},
	{name: "a model's name of 3.9 MB, unread", clients: 150, path: completionsPath, silent: true, body: func() string {
		return `{"model":"` + strings.Repeat("x/", largeBody/2) + `demo","prompt":"Once","max_tokens":300,"stream":true}`
	}},
	{name: "shown tools of 3 MB, unread", clients: 150, path: "/v1/responses", silent: true, body: func() string {
		return `{"model":"demo","input":"Once","stream":true,"tool_choice":"none","tools":[{"type":"function","name":"f","description":"` + strings.Repeat("x", 3<<20) + `"}]}`
	}},
	{name: "34,000 tools, all allowed", clients: 8, path: chatsPath, body: func() string {
		tools := listOf(`{"type":"function","function":{"name":"f"}}`, 34000)
		return `{"model":"demo","messages":[{"role":"user","content":"x"}],"tools":[` + tools + `],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[` + tools + `]}}}`
	}},
	{name: "unknown models, n 128", clients: 64, path: completionsPath, body: always(`{"model":"none","n":128,"prompt":"x"}`)},
	{name: "long answers", clients: 600, path: completionsPath, body: always(`{"model":"demo","prompt":"Once","max_tokens":400,"ignore_eos":true,"stream":true}`)},
	{name: "bodies that never end", clients: 300, path: chatsPath, unended: true, body: always(`{"model":"demo",` + strings.Repeat(" ", 64<<10))},
	{name: "idle connections without a key", clients: 600, keyless: true, unended: true, body: always("")},
}

// run makes an attack's clients work until ctx ends.
func (a attack) run(ctx context.Context, door, key string) {
	body := a.body()
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n", a.path, key)
	length := len(body)
	if a.unended {
		length += 1 << 20
	}
	text := fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, length, body)
	if a.keyless {
		text = ""
	}
	var all sync.WaitGroup
	for range a.clients {
		all.Go(func() {
			for ctx.Err() == nil {
				a.once(ctx, door, text)
			}
		})
	}
	all.Wait()
}

// once does it once; that it fails is the answer to it.
func (a attack) once(ctx context.Context, door, text string) {
	var d net.Dialer
	if a.keyless {
		d.LocalAddr = &net.TCPAddr{IP: from}
	}
	c, err := d.DialContext(ctx, "tcp", door)
	if err != nil {
		return
	}
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	defer func() { _ = c.Close() }()
	if _, err := io.WriteString(c, text); err != nil {
		return
	}
	if a.silent { // until it is closed
		time.Sleep(10 * time.Second)
		return
	}
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err == nil {
		_, _ = io.Copy(io.Discard, r.Body)
		_ = r.Body.Close()
	}
}

// from is the address of attackers without a key: else they would share the victim's.
var from = net.IPv4(127, 0, 0, 2)

// attackIfAsked is this program as an attacker; false: it is none.
func attackIfAsked() bool {
	name := os.Getenv(envAttack)
	if name == "" {
		return false
	}
	all := attacks
	for n := range mostHarmless {
		all = append(all, harmless(n+1))
	}
	for _, a := range all {
		if a.name == name {
			a.run(context.Background(), os.Getenv(envDoor), "attacker")
		}
	}
	return true
}

// harmless are clients that ask for short answers.
func harmless(clients int) attack {
	return attack{name: fmt.Sprintf("harmless %d", clients), clients: clients, path: completionsPath, body: always(`{"model":"demo","prompt":"Once upon a time","max_tokens":8}`)}
}

// beside runs an attack in a process that yields to all others until the test's step ends.
func beside(t *testing.T, door string, a attack, step func()) {
	t.Helper()
	c := exec.CommandContext(t.Context(), "nice", "-n", "19", os.Args[0])
	c.Env = append(os.Environ(), envAttack+"="+a.name, envDoor+"="+door)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
	time.Sleep(warm)
	step()
}

// victim asks for answers one after the other, and returns the median time to the first token, and how
// many were refused.
func victim(t *testing.T, door string) (first time.Duration, refused int) {
	t.Helper()
	var all []time.Duration
	for range asked {
		began := time.Now()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+door+completionsPath, strings.NewReader(`{"model":"demo","prompt":"Once upon a time","max_tokens":8,"stream":true}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer victim")
		answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
		if err != nil {
			refused++
			continue
		}
		if answer.StatusCode != http.StatusOK {
			refused++
		}
		for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
			if bytes.HasPrefix(lines.Bytes(), []byte("data: {")) {
				all = append(all, time.Since(began))
				break
			}
		}
		_ = answer.Body.Close()
	}
	if len(all) == 0 {
		return 0, refused
	}
	slices.Sort(all)
	return all[len(all)/2], refused
}

// TestAttacks writes a table of what one tenant's attack does to the process, and to another tenant.
func TestAttacks(t *testing.T) {
	if os.Getenv("SWITCHYARD_DOOR") == "" {
		t.Skip("set SWITCHYARD_DOOR=1 to run it")
	}
	keys, text := filepath.Join(t.TempDir(), "keys"), ""
	for _, tenant := range []string{"victim", "attacker"} {
		text += fmt.Sprintf("%x %s\n", sha256.Sum256([]byte(tenant)), tenant)
	}
	if err := os.WriteFile(keys, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	door, program := testkit.FreeAddr(t), fleet.Build(t)+"/switchyard"
	up := fleet.Launch(t, "up", program, "up", "--http", door, "--http-keys", keys, "--http-max-conns", "512", "--scaling", "none", "--listen", testkit.FreeAddr(t))
	up.Await(t, "ready")
	alone, refused := victim(t, door)
	if refused > 0 {
		t.Fatalf("%d of %d are refused alone", refused, asked)
	}
	rest := memory(t, up)
	t.Logf("alone: first token %v, %.0f MB", alone.Round(time.Millisecond), rest)
	for _, a := range attacks {
		var load, attacked time.Duration
		var refused int
		most := rest
		beside(t, door, harmless(min(a.clients, mostHarmless)), func() { load, _ = victim(t, door) })
		beside(t, door, a, func() {
			watched, stop := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				for ; watched.Err() == nil; time.Sleep(50 * time.Millisecond) {
					most = max(most, memory(t, up))
				}
			}()
			attacked, refused = victim(t, door)
			stop()
			<-done
		})
		time.Sleep(settled)
		t.Logf("| %s | %d | %.0f, %.0f | %v | %v | %d |", a.name, a.clients, most, memory(t, up), load.Round(time.Millisecond), attacked.Round(time.Millisecond), refused)
		if refused > 0 || attacked > 2*load+100*time.Millisecond || most > 2*rest+512 {
			t.Errorf("%s: the first token comes after %v, %v beside a harmless load; %d of %d were refused; up has %.0f MB of %.0f at rest", a.name, attacked, load, refused, asked, most, rest)
		}
	}
}
