package tokenizer

import (
	"fmt"
	"time"

	"github.com/switchyard/switchyard/pkg/process/service"
	"github.com/switchyard/switchyard/pkg/transport/catalog"
	"github.com/switchyard/switchyard/schemas"
)

// Descriptor returns the service as a process runs it.
func Descriptor() service.Descriptor {
	return service.Descriptor{
		Service: catalog.Tokenizer, Flags: service.FlagsOf((*Flags).Config),
		Reloads: true, New: service.NewOf(New),
	}
}

// Flags are the tokenizer's own.
type Flags struct {
	MaxQueued     int           `default:"${max_queued}" help:"Sequences that may wait before prompts are refused as overload." placeholder:"N"`
	InboxPrefixes []string      `default:"_INBOX." help:"What the reply subjects of ask and replay begin with; others are not answered." placeholder:"PREFIX" advanced:""`
	CanaryEvery   time.Duration `default:"15s" help:"How long no token may flow before a request of one token is sent to see whether one can; 0 is never, and then no token need flow to be ready." placeholder:"TIME" advanced:""`
	Consent       string        `default:"allow" enum:"allow,never" help:"Whether other experts may stand in, in a brownout, for those of requests that do not say: allow or never." placeholder:"WORD" advanced:""`
	Tenant        []string      `sep:"none" help:"What a tenant may have, such as acme:weight=4,waiting=100,requests=60,tokens=60000,log=1GiB (its share, its requests that wait, requests and tokens a minute, bytes of the token log); * stands for those not named. May be given several times; all tokenizers need the same." placeholder:"NAME:QUOTA"`
}

// mostQueued bounds what is calculated with.
const mostQueued = 1 << 20

// Config is what they say.
func (f *Flags) Config(p service.Process) (Config, error) {
	if err := service.CheckRange("max-queued", f.MaxQueued, 1, mostQueued); err != nil {
		return Config{}, err
	}
	if f.CanaryEvery < 0 {
		return Config{}, fmt.Errorf("--canary-every is %v; it must be a time, or 0 for never", f.CanaryEvery)
	}
	for _, inbox := range f.InboxPrefixes {
		if err := (schemas.Subjects{Prefix: p.Prefix}).CheckInboxPrefix(inbox); err != nil {
			return Config{}, fmt.Errorf("--inbox-prefixes: %w", err)
		}
	}
	tenants, err := parseTenants(f.Tenant)
	return Config{
		MaxModelLen: p.MaxModelLen, MaxQueued: f.MaxQueued, InboxPrefixes: f.InboxPrefixes, Tenants: tenants, Version: p.Version,
		CanaryEvery: f.CanaryEvery, OwnExperts: f.Consent == "never",
	}, err
}
