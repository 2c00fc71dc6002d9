package rights

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/switchyard/switchyard/pkg/transport/catalog"
	"github.com/switchyard/switchyard/schemas"
)

// Names of the accounts. What is published in one is heard in another only where Crossings
// say so. The services' has JetStream and all that is stored; the others store nothing. Each
// tenant has one of its own, so that what one takes of the server is not another's.
const (
	ServicesAccount  = "switchyard"
	EdgeAccount      = "edge"      // of the tokenizers, where they hear and answer producers
	ProducersAccount = "producers" // of the default tenant
	GatewayAccount   = "gateway"   // of gateways, which ask in the name of every tenant
)

// AccountOf is the account that a user is in.
func AccountOf(user string) string {
	switch {
	case user == Edge:
		return EdgeAccount
	case isOutside(user):
		return GatewayAccount
	case isProducer(user):
		return ProducersAccount + strings.TrimPrefix(user, Producer)
	}
	return ServicesAccount
}

func isProducer(user string) bool {
	return user == Producer || strings.HasPrefix(user, Producer+"-")
}

func isOutside(user string) bool {
	s, known := catalog.Find(user)
	return known && s.Outside
}

// IsProducers reports whether an account is a tenant's.
func IsProducers(account string) bool {
	return account == ProducersAccount || strings.HasPrefix(account, ProducersAccount+"-")
}

// Crossing is a subject of one account that another one imports.
type Crossing struct {
	Subject string
	// From has it, To imports it.
	From, To string
	// As is what To hears it as, with $1 for what the subject's wildcard stands for; empty: as it is.
	As string
	// Service says that messages go from To to From, and one answer back; else they go from
	// From to To, as they are.
	Service bool
}

// Crossings are all that passes between accounts.
//
//   - Prompts: JetStream stores them in the services' account. Its acknowledgement goes to a
//     subject that the server makes, and from there to the reply subject that the producer
//     named, in the producer's account, where nothing is stored.
//   - What producers send, on its way to tokenizers; prompts too, as no other service
//     refuses those for a model that no replica serves. Tokenizers hear replays and
//     cancellations under the tenant's name, which the server puts there.
//   - Answers, each to the account whose inboxes they are for; a service could answer but
//     once, and no more when a server was started again.
//   - What tokenizers reject, for `admin`.
func (s Scope) Crossings() (all []Crossing) {
	prompts := catalog.Under(s.Prefix + ".prompt")
	for _, u := range Users(s) {
		if !isProducer(u.Name) && !isOutside(u.Name) {
			continue
		}
		for _, subject := range u.Publish() {
			if Covers([]string{prompts}, subject) {
				all = append(all, Crossing{Subject: subject, From: ServicesAccount, To: u.Account, Service: true})
			}
			all = append(all, Crossing{Subject: subject, From: u.Account, To: EdgeAccount, As: s.named(u.Name, subject)})
		}
		all = append(all, Crossing{Subject: catalog.Under(u.Inbox), From: EdgeAccount, To: u.Account})
	}
	return append(all, Crossing{Subject: s.Prefix + ".rejected.*", From: EdgeAccount, To: ServicesAccount})
}

// named is what tokenizers hear of a producer's replays and cancellations: the tenant stands behind
// the model. Gateways name it themselves.
func (s Scope) named(user, subject string) string {
	verb, rest, _ := strings.Cut(strings.TrimPrefix(subject, s.Prefix+"."), ".")
	if !isProducer(user) || verb != "replay" && verb != "cancel" {
		return ""
	}
	tenant := cmp.Or(strings.TrimPrefix(strings.TrimPrefix(user, Producer), "-"), schemas.DefaultTenant)
	model, request, _ := strings.Cut(rest, ".")
	as := schemas.NewSubjects(s.Prefix, model)
	if request == "" {
		return as.ReplayOf(tenant)
	}
	return as.CancelOf(tenant, "$1")
}

// Accounts are the names of all accounts, in a steady order.
func (s Scope) Accounts() (names []string) {
	for _, u := range Users(s) {
		names = union(names, []string{u.Account})
	}
	return names
}

// Bounds are what a server lets producers have.
type Bounds struct {
	// Payload is the largest message of one of them, in bytes, with its headers.
	Payload int64 `json:"payload,omitempty"`
	// Subs are the subscriptions of one connection.
	Subs int64 `json:"subs,omitempty"`
	// Conns are the connections of all producers of a tenant.
	Conns int64 `json:"conns,omitempty"`
}

// DefaultBounds suffice for prompts of a hundred thousand tokens as ids, a gateway with as many
// inboxes as it has requests, and some processes of a tenant that ask. What waits for those who do
// not read is bounded by their number.
func DefaultBounds() Bounds { return Bounds{Payload: 1 << 20, Subs: 1000, Conns: 16} }

// OrDefaults has the default in place of what is 0.
func (b Bounds) OrDefaults() Bounds {
	d := DefaultBounds()
	for _, one := range []struct{ to, from *int64 }{{&b.Payload, &d.Payload}, {&b.Subs, &d.Subs}, {&b.Conns, &d.Conns}} {
		if *one.to == 0 {
			*one.to = *one.from
		}
	}
	return b
}

// leastPayload is what a short prompt with its headers takes; mostBounds is what a server counts to.
const leastPayload, mostBounds = 4 << 10, 1<<31 - 1

// Check says which bound cannot be one.
func (b Bounds) Check() error {
	b = b.OrDefaults()
	for _, one := range []struct {
		what        string
		value, from int64
	}{
		{"bytes of a producer's message", b.Payload, leastPayload},
		{"subscriptions of a producer's connection", b.Subs, 1},
		{"connections of a tenant's producers", b.Conns, 1},
	} {
		if one.value < one.from || one.value > mostBounds {
			return fmt.Errorf("%d %s; there must be %d to %d", one.value, one.what, one.from, mostBounds)
		}
	}
	return nil
}
