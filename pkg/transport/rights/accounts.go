package rights

import (
	"fmt"
	"strings"
)

// Names of the accounts. What is published in one is heard in the other only where
// Crossing says so: the services' has JetStream and all that is stored, the producers'
// has neither.
const (
	ServicesAccount  = "switchyard"
	ProducersAccount = "producers"
)

// AccountOf is the account that a user is in.
func AccountOf(user string) string {
	if user == Edge || isProducer(user) {
		return ProducersAccount
	}
	return ServicesAccount
}

func isProducer(user string) bool {
	return user == Producer || strings.HasPrefix(user, Producer+"-")
}

// Crossing is what producers publish in their account and JetStream stores in the services':
// a service there, which they import. Its acknowledgement goes to a subject that the server
// makes, and from there to the reply subject that the producer named, in his own account,
// where nothing is stored.
func (s Scope) Crossing() string { return under(s.Prefix + ".prompt") }

// Bounds are what a server lets producers have.
type Bounds struct {
	// Payload is the largest message of one of them, in bytes, with its headers.
	Payload int64 `json:"payload,omitempty"`
	// Subs are the subscriptions of one connection.
	Subs int64 `json:"subs,omitempty"`
	// Conns are the connections of all producers and tokenizers to one account.
	Conns int64 `json:"conns,omitempty"`
}

// DefaultBounds suffice for prompts of a hundred thousand tokens as ids, a gateway with as many
// inboxes as it has requests, and some hundred processes that ask.
func DefaultBounds() Bounds { return Bounds{Payload: 1 << 20, Subs: 1000, Conns: 256} }

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
		{"connections of producers", b.Conns, 1},
	} {
		if one.value < one.from || one.value > mostBounds {
			return fmt.Errorf("%d %s; there must be %d to %d", one.value, one.what, one.from, mostBounds)
		}
	}
	return nil
}
