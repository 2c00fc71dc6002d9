package tokenizer

import (
	"time"

	"github.com/switchyard/switchyard/services/tokenizer/admission"
)

// Config is what an operator sets.
type Config struct {
	// MaxModelLen bounds a sequence, prompt and generated tokens together; 0 is the model's limit.
	MaxModelLen int
	// MaxQueued is how many sequences may wait for attention before prompts are refused as overload.
	MaxQueued int
	// InboxPrefixes begin the reply subjects that ask and replay answer to;
	// none is NATS's default, schemas.DefaultInboxPrefix.
	InboxPrefixes []string
	// Tenants are what tenants may have, by name; EveryoneElse is what others may.
	Tenants map[string]Quota
	// CanaryEvery is how long no token may flow before a request of one token is sent
	// to see whether one can; 0: none is, and no token need flow to be ready.
	CanaryEvery time.Duration
	// OwnExperts says that no expert stands in for another one in a brownout for requests that
	// do not say.
	OwnExperts bool
	// Version of the build, as semantic versioning writes it: NATS services say it.
	Version string
}

// Quota is what a tenant may have.
type Quota = admission.Quota

// EveryoneElse names the quota of tenants that have none of their own.
const EveryoneElse = admission.EveryoneElse

// DefaultMaxQueued keeps the wait within what a producer bears.
const DefaultMaxQueued = 1024
