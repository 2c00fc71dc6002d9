package intake

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/schemas"
)

const (
	// servedAge is how long a look at the models that are served here lasts: what asks
	// for others may come often.
	servedAge = 5 * time.Second
	// servedWithin bounds such a look, for which a refusal waits.
	servedWithin = 500 * time.Millisecond
	// maxServed and maxServedName bound what a refusal says of them, in names and in bytes of one.
	maxServed, maxServedName = 10, 64
)

// servedModels are the models that are served here, as refusals name them.
type servedModels struct {
	mu     sync.Mutex
	looked time.Time
	text   string
}

// servedHere names the models that producers can ask here, which are no secret among them.
func (s *guard) servedHere() string {
	m := &s.served
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := time.Now(); m.looked.IsZero() || now.Sub(m.looked) >= servedAge {
		m.looked, m.text = now, nameServed(s.d.Subjects.Model, s.lookForModels())
	}
	return m.text
}

// lookForModels are the models whose prompts a stream takes, as far as the server says.
func (s *guard) lookForModels() (models []string) {
	ctx, cancel := context.WithTimeout(s.ctx, servedWithin)
	defer cancel()
	all := schemas.Streams{Subjects: schemas.Subjects{Prefix: s.d.Subjects.Prefix, Model: "*"}}
	before := strings.TrimSuffix(all.Prompts().Name, "*")
	streams := s.d.Conn.JetStream().StreamNames(ctx, jetstream.WithStreamListSubject(all.Subjects.Prompt()))
	for name := range streams.Name() {
		if model, ok := strings.CutPrefix(name, before); ok && schemas.ModelToken(model) == model {
			models = append(models, model)
		}
	}
	return models
}

// nameServed names models, own before all others.
func nameServed(own string, others []string) string {
	slices.Sort(others)
	names := []string{own}
	for _, model := range slices.Compact(others) {
		if model != own {
			names = append(names, model)
		}
	}
	all := len(names)
	names = slices.DeleteFunc(names, func(name string) bool { return len(name) > maxServedName })
	names = names[:min(len(names), maxServed)]
	switch more := all - len(names); {
	case len(names) == 0:
		return fmt.Sprintf("%d models", all)
	case more > 0:
		return fmt.Sprintf("%s and %d more", strings.Join(names, ", "), more)
	}
	return strings.Join(names, ", ")
}
