package upstream

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/switchyard/switchyard/pkg/request/client"
	"github.com/switchyard/switchyard/schemas"
)

const (
	// lookEvery is how often tokenizers are asked what they serve.
	lookEvery = time.Second
	// staleAfter is how long after its last word a model counts as not ready, and goneAfter as
	// not there.
	staleAfter, goneAfter = 3 * lookEvery, 5 * time.Minute
	// findWithin is how long a request waits for a word of a model that is unknown or not ready, and
	// mostFinding how many wait for one of unknown models: further ones are refused at once.
	findWithin, mostFinding = 500 * time.Millisecond, 64
	// mostModels and mostInfo bound what is believed: models, and bytes that one says of itself.
	mostModels, mostInfo = 1000, 64 << 10
)

// models are those that tokenizers have told of.
type models struct {
	mu      sync.Mutex
	all     map[string]heard
	finding int           // how many wait for a word of an unknown one
	changed chan struct{} // closed when one has come, or is ready again
	now     func() time.Time
}

// heard is what a tokenizer has said last of a model.
type heard struct {
	Model
	at time.Time
}

func newModels() *models {
	return &models{all: map[string]heard{}, changed: make(chan struct{}), now: time.Now}
}

// onInfo believes what a tokenizer says, as far as it can be. Of several that serve a model, one
// that is ready does for all.
func (m *models) onInfo(msg *nats.Msg) {
	var info micro.Info
	if len(msg.Data) > mostInfo || json.Unmarshal(msg.Data, &info) != nil {
		return
	}
	about, err := readAbout(info.Metadata)
	if err != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	before, known := m.all[about.Name]
	switch {
	case !known && len(m.all) >= mostModels:
		return
	case known && now.Sub(before.at) < lookEvery/2 && before.Ready && !about.Ready:
		return
	case known:
		about.Created = min(about.Created, before.Created)
		about.Secret = cmp.Or(about.Secret, before.Secret) // which one of an earlier release does not tell
	}
	m.all[about.Name] = heard{about, now}
	if !known || about.Ready && !before.Ready {
		close(m.changed)
		m.changed = make(chan struct{})
	}
}

var errAbout = errors.New("no description of a model")

// readAbout reads the metadata of a tokenizer's micro service.
func readAbout(meta map[string]string) (m Model, err error) {
	number := func(key string) int {
		n, wrong := strconv.Atoi(meta[key])
		if wrong != nil || n < 0 {
			err = errAbout
		}
		return n
	}
	figure := func(key string) float64 { // what an older tokenizer does not say is 0
		v, wrong := strconv.ParseFloat(meta[key], 64)
		if wrong != nil || !(v >= 0 && v < 1e12) {
			return 0
		}
		return v
	}
	m = Model{
		Running: figure(schemas.AboutRunning), Waiting: figure(schemas.AboutWaiting), KVUsed: figure(schemas.AboutKVUsed),
		Name: meta[schemas.AboutModel], Context: number(schemas.AboutContext), Vocab: number(schemas.AboutVocab), Created: int64(number(schemas.AboutCreated)),
		Family: meta[schemas.AboutFamily], Hash: meta[schemas.AboutHash], Class: meta[schemas.AboutClass], Wire: meta[schemas.AboutWire],
		Secret: meta[schemas.AboutSecret], BOS: meta[schemas.AboutBOS], EOS: meta[schemas.AboutEOS],
		Text: meta[schemas.AboutText] == "true", Chat: meta[schemas.AboutChat] == "true", Ready: meta[schemas.AboutReady] == "true",
	}
	m.MostBytes = schemas.MaxPrompt(m.Context)
	if schemas.CheckModelToken(m.Name) != nil {
		err = errAbout
	}
	return m, err
}

// list are the models that are there, by name.
func (m *models) list() (out []Model) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	for name, h := range m.all {
		switch age := now.Sub(h.at); {
		case age > goneAfter:
			delete(m.all, name)
			continue
		case age > staleAfter:
			h.Ready = false
		}
		out = append(out, h.Model)
	}
	slices.SortFunc(out, func(a, b Model) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// silent is for how long no tokenizer has told of a model.
func (m *models) silent(name string) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now().Sub(m.all[name].at)
}

// named is the model of a name: the one in subjects, or one that is published under it, as
// Qwen/Qwen3-30B-A3B is for Qwen3-30B-A3B.
func (m *models) named(name string) (Model, bool) {
	all := m.list()
	for _, as := range []string{name, schemas.ModelToken(name), schemas.ModelToken(name[strings.LastIndexByte(name, '/')+1:])} {
		for _, one := range all {
			if one.Name == as {
				return one, true
			}
		}
	}
	return Model{}, false
}

// find waits a moment for a model that is not known, or, to be asked, not ready: what was heard last may be
// older than what /readyz says.
func (m *models) find(ctx context.Context, name string, toAsk bool, look func()) (Model, error) {
	if len(name[strings.LastIndexByte(name, '/')+1:]) > schemas.MaxModelToken {
		return Model{}, m.unknown(name) // nobody can come who serves it
	}
	if _, ok := m.named(name); !ok {
		defer m.waits(-1)
		if m.waits(1) > mostFinding {
			return Model{}, m.unknown(name)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, findWithin)
	defer cancel()
	for asked := false; ; asked = true {
		m.mu.Lock()
		changed := m.changed
		m.mu.Unlock()
		one, ok := m.named(name)
		if ok && (one.Ready || !toAsk) {
			return one, nil
		}
		if !asked {
			look()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if ok {
				return one, &client.Error{Code: client.CodeModelNotReady, Message: fmt.Sprintf("no token can flow in model %s now; ask again", one.Name)}
			}
			return Model{}, m.unknown(name)
		}
	}
}

// waits counts those who wait for a word of a model.
func (m *models) waits(more int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.finding += more
	return m.finding
}

// unknown is why nothing can be asked of a model.
func (m *models) unknown(name string) error {
	if n := len(name[strings.LastIndexByte(name, '/')+1:]); n > schemas.MaxModelToken {
		return &client.Error{Code: client.CodeModelNotFound, Message: fmt.Sprintf("The model %.100q does not exist: its name has %d bytes; a model's has at most %d", name, n, schemas.MaxModelToken)}
	}
	var names []string
	for _, one := range m.list() {
		names = append(names, one.Name)
	}
	text := "no model is served here"
	if len(names) > 0 {
		text = "served here: " + strings.Join(names[:min(len(names), 10)], ", ")
	}
	return &client.Error{Code: client.CodeModelNotFound, Message: fmt.Sprintf("The model %.100q does not exist; %s", name, text)}
}

// ready says why no model could be asked.
func (m *models) ready() error {
	all := m.list()
	if slices.ContainsFunc(all, func(one Model) bool { return one.Ready }) {
		return nil
	}
	if len(all) == 0 {
		return errors.New("no tokenizer has told of a model")
	}
	return errors.New("no token can flow in any model")
}
