package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/switchyard/switchyard/pkg/request/client"
	"github.com/switchyard/switchyard/schemas"
)

func info(change map[string]string) *nats.Msg {
	meta := map[string]string{schemas.AboutModel: "m", schemas.AboutContext: "512", schemas.AboutVocab: "9", schemas.AboutCreated: "7", schemas.AboutReady: "true", schemas.AboutHash: "h"}
	for k, v := range change {
		meta[k] = v
	}
	body, _ := json.Marshal(micro.Info{ServiceIdentity: micro.ServiceIdentity{Metadata: meta}})
	return &nats.Msg{Data: body}
}

func TestModels(t *testing.T) {
	m, now := newModels(), time.Unix(100, 0)
	m.now = func() time.Time { return now }
	for _, bad := range []*nats.Msg{{Data: []byte("x")}, {Data: make([]byte, mostInfo+1)}, info(map[string]string{schemas.AboutModel: "a.b"}), info(map[string]string{schemas.AboutModel: ""}), info(map[string]string{schemas.AboutContext: "-1"}), info(map[string]string{schemas.AboutVocab: "x"})} {
		m.onInfo(bad)
	}
	if all := m.list(); len(all) != 0 || m.ready() == nil {
		t.Errorf("believed %v", all)
	}
	m.onInfo(info(nil))
	m.onInfo(info(map[string]string{schemas.AboutReady: "false", schemas.AboutCreated: "5", schemas.AboutKVUsed: "NaN"}))
	if got, ok := m.named("org/m"); !ok || !got.Ready || m.ready() != nil || got.KVUsed != 0 {
		t.Errorf("%v: one that is ready does for all", got)
	}
	now = now.Add(staleAfter + 1)
	if got, ok := m.named("m"); !ok || got.Ready || m.ready() == nil {
		t.Errorf("%v: nothing was heard of it", got)
	}
	now = now.Add(goneAfter)
	if all := m.list(); len(all) != 0 {
		t.Errorf("%v are gone", all)
	}
}

// A model that is not known is looked for, and waited for a moment.
func TestFind(t *testing.T) {
	m := newModels()
	if got, err := m.find(t.Context(), "m", false, func() { go m.onInfo(info(nil)) }); err != nil || got.Name != "m" {
		t.Errorf("%v, %v", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.find(ctx, "other", false, func() {}); err == nil {
		t.Error("another one was found")
	}
}

// A model that was not ready when it was heard last is asked for again, and refused if it is not a moment later.
func TestFindToAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, not := newModels(), info(map[string]string{schemas.AboutReady: "false"})
		m.onInfo(not)
		if got, err := m.find(t.Context(), "m", false, func() { t.Error("it is asked for") }); err != nil || got.Ready {
			t.Errorf("what asks for no token: %v, %v", got, err)
		}
		var refused *client.Error
		if _, err := m.find(t.Context(), "m", true, func() { go m.onInfo(not) }); !errors.As(err, &refused) || refused.Code != client.CodeModelNotReady {
			t.Errorf("it is not ready: %v", err)
		}
		if got, err := m.find(t.Context(), "m", true, func() { go m.onInfo(info(nil)) }); err != nil || !got.Ready {
			t.Errorf("it is ready since: %v, %v", got, err)
		}
	})
}

// A request of which nothing has come ends when the model's tokenizers are silent; one whose answer has
// begun waits on.
func TestSilentTokenizers(t *testing.T) {
	for _, begun := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n := &NATS{models: newModels()}
			n.models.onInfo(info(nil))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			reading, answered := n.untilDeaf(ctx, "m")
			defer answered()
			if begun {
				answered()
			}
			time.Sleep(deafAfter - lookEvery)
			if reading.Err() != nil {
				t.Error("it is given up while a tokenizer may answer")
			}
			time.Sleep(2 * lookEvery)
			var refused *client.Error
			if is := errors.As(context.Cause(reading), &refused) && refused.Code == client.CodeModelNotReady; is == begun {
				t.Errorf("begun %v: %v", begun, context.Cause(reading))
			}
		})
	}
}

// A name that no model can have is told at once, with the bound; what stands before the last slash is not part of it.
func TestTooLongName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, began := newModels(), time.Now()
		longest := strings.Repeat("m", schemas.MaxModelToken)
		m.onInfo(info(map[string]string{schemas.AboutModel: longest}))
		if one, err := m.find(t.Context(), "owner/"+longest, false, func() {}); err != nil || one.Name != longest {
			t.Errorf("%+v, %v", one, err)
		}
		for _, name := range []string{longest + "m", "owner/" + longest + "m"} {
			_, err := m.find(t.Context(), name, true, func() { t.Error("it is looked for") })
			if err == nil || !strings.Contains(err.Error(), "its name has 65 bytes; a model's has at most 64") || time.Since(began) != 0 {
				t.Errorf("%s: %v after %v", name, err, time.Since(began))
			}
		}
		m.onInfo(info(map[string]string{schemas.AboutModel: longest + "m"}))
		if all := m.list(); len(all) != 1 {
			t.Errorf("%+v are served", all)
		}
	})
}

// However many ask for models that nobody serves, few wait for a word of them, and a known one is found.
func TestFindingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModels()
		m.onInfo(info(nil))
		ask := func(name string) time.Duration {
			began := time.Now()
			if _, err := m.find(t.Context(), name, false, func() {}); (err == nil) != (name == "m") {
				t.Errorf("%s: %v", name, err)
			}
			return time.Since(began)
		}
		for range mostFinding {
			go ask("none")
		}
		synctest.Wait()
		if ask("other") != 0 || ask("m") != 0 {
			t.Error("one more waits as well")
		}
		time.Sleep(findWithin)
		synctest.Wait()
		if ask("other") != findWithin || m.finding != 0 {
			t.Errorf("%d are counted when none waits", m.finding)
		}
	})
}

func TestFingerprint(t *testing.T) {
	a, b := Model{Hash: "h", Class: "c", Wire: "w", Running: 1}, Model{Hash: "h", Class: "c", Wire: "w"}
	if a.Fingerprint() != b.Fingerprint() || a.Fingerprint() == (Model{Hash: "h", Class: "c", Wire: "x"}).Fingerprint() {
		t.Error("fingerprints follow from more than what bits do")
	}
}
