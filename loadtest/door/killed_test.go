package door

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/loadtest/fleet"
)

const (
	// kills are how many processes of each kind are killed, and answered how many tokens the answers
	// have in whose middle that happens.
	kills, answered = 2, 240
	// goesOn is how long a client tries to go on with an answer.
	goesOn = time.Minute
)

// front is a pipeline of a process each, two of each kind, and two gateways in front of it.
type front struct {
	*fleet.Fleet
	t        *testing.T
	gateways []*gate
	begun    []*fleet.Process // in place of killed ones
}

// gate is a gateway.
type gate struct {
	*fleet.Process
	addr string
}

// TestKilled kills a process of each kind in the middle of answers. A response in the background goes on
// from its client's cursor, at the other gateway if need be: no event comes twice, none is left out, and
// they tell what they tell undisturbed. A chat has its whole answer, unless its gateway was killed: then
// its client sees that it was cut.
func TestKilled(t *testing.T) {
	if os.Getenv("SWITCHYARD_DOOR") == "" {
		t.Skip("set SWITCHYARD_DOOR=1 to run it")
	}
	f := &front{Fleet: fleet.New(t, fleet.Settings{Programs: fleet.Build(t)}), t: t}
	f.Scale(2, 2)
	f.open(2)
	want, chat := f.respond(nil), f.chat(nil)
	if len(want) < answered || !strings.HasSuffix(chat, "[DONE]") {
		t.Fatalf("undisturbed there are %d events, and a chat of %q", len(want), chat)
	}
	worst := map[string]time.Duration{}
	for round := range kills {
		for _, kind := range append(slices.Clone(fleet.Kinds), "gateway") {
			began := time.Now()
			if got := f.respond(f.killer(kind)); !slices.Equal(got, want) {
				t.Errorf("%s, round %d: other events:\n%q\nwant\n%q", kind, round, got, want)
			}
			worst[kind] = max(worst[kind], time.Since(began))
			f.settle()
			switch got := f.chat(f.killer(kind)); {
			case kind == "gateway" && got != "cut":
				t.Errorf("a chat whose gateway was killed ends as if it was whole: %q", got)
			case kind != "gateway" && got != chat:
				t.Errorf("%s, round %d: another chat: %q\nwant %q", kind, round, got, chat)
			}
			f.settle()
		}
	}
	t.Logf("%d kills of each kind, in responses of %d events; the slowest took %v", 2*kills, len(want), worst)
}

// open brings the gateways to so many.
func (f *front) open(count int) {
	f.t.Helper()
	for len(f.gateways) < count {
		addr := testkit.FreeAddr(f.t)
		g := &gate{f.Run("gateway", f.URL(), nil, "--listen", addr), addr}
		g.Await(f.t, "ready")
		f.gateways = append(f.gateways, g)
	}
}

// killer kills a process of a kind, of the gateways the first one, and replaces it.
func (f *front) killer(kind string) func() {
	return func() {
		if kind == "gateway" {
			f.gateways[0].Kill()
			f.gateways = f.gateways[1:]
			return
		}
		f.Kill(kind)
		f.begun = append(f.begun, f.Add(kind))
	}
}

// settle waits for those that were started.
func (f *front) settle() {
	f.t.Helper()
	for _, p := range f.begun {
		p.Await(f.t, "ready")
	}
	f.begun = nil
	f.open(2)
}

// respond has a response in the background, and reads its events from the first gateway; in the middle
// of them kill is called. It returns what the events say, but for ids and times.
func (f *front) respond(kill func()) (events []string) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), goesOn)
	defer cancel()
	var made struct{ ID string }
	body := fmt.Sprintf(`{"model":"demo","input":"Tell me a story","background":true,"max_output_tokens":%d,"temperature":0,"text":{"format":{"type":"json_schema","name":"long","schema":{"type":"string","minLength":500}}}}`, answered)
	if page, err := f.call(ctx, http.MethodPost, "/v1/responses", body); err != nil || json.Unmarshal(page, &made) != nil || made.ID == "" {
		f.t.Fatalf("a response: %s, %v", page, err)
	}
	for last := -1; ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
		answer, err := f.do(ctx, http.MethodGet, fmt.Sprintf("/v1/responses/%s?stream=true&starting_after=%d", made.ID, last), "")
		if err != nil {
			continue
		}
		for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
			data, is := strings.CutPrefix(lines.Text(), "data: ")
			var e struct {
				Type, Delta string
				Number      int `json:"sequence_number"`
			}
			if !is || json.Unmarshal([]byte(data), &e) != nil {
				continue
			}
			last = e.Number
			events = append(events, fmt.Sprintf("%d %s %s", e.Number, e.Type, e.Delta))
			if kill != nil && len(events) == answered/3 {
				kill()
			}
			if e.Type == "response.completed" || e.Type == "response.incomplete" || e.Type == "response.failed" {
				_ = answer.Body.Close() // it is read only
				return events
			}
		}
		_ = answer.Body.Close() // as above
	}
	return append(events, "no end")
}

// chat asks the first gateway for a chat, in whose middle kill is called, and returns its text and its
// end; "cut" is one whose connection broke.
func (f *front) chat(kill func()) string {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), goesOn)
	defer cancel()
	body := fmt.Sprintf(`{"model":"demo","messages":[{"role":"user","content":"Hello"}],"max_tokens":%d,"ignore_eos":true,"stream":true,"temperature":0}`, answered)
	answer, err := f.do(ctx, http.MethodPost, "/v1/chat/completions", body)
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }() // it is read only
	var text strings.Builder
	lines := bufio.NewScanner(answer.Body)
	for count := 0; lines.Scan(); {
		data, is := strings.CutPrefix(lines.Text(), "data: ")
		if !is {
			continue
		}
		var e struct {
			Error   any
			Choices []struct{ Delta struct{ Content string } }
		}
		if json.Unmarshal([]byte(data), &e) != nil || e.Error != nil {
			text.WriteString(data)
		} else if len(e.Choices) > 0 {
			text.WriteString(e.Choices[0].Delta.Content)
		}
		if count++; kill != nil && count == answered/3 {
			kill()
		}
	}
	if errors.Is(lines.Err(), io.ErrUnexpectedEOF) || errors.As(lines.Err(), new(interface{ Timeout() bool })) {
		return "cut"
	}
	return text.String()
}

// do asks the first gateway.
func (f *front) do(ctx context.Context, method, path, body string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://"+f.gateways[0].addr+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	return http.DefaultClient.Do(r)
}

// call is do with all that is answered.
func (f *front) call(ctx context.Context, method, path, body string) ([]byte, error) {
	answer, err := f.do(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }() // it is read only
	return io.ReadAll(answer.Body)
}
