// Package catalog is the one list of services, as everything else sees them: users with
// rights, members of a model, stages on a token's way, commands. A service is a folder of
// services, its description and rights here (table.go, grants.go), and one line in package services. Rights,
// the order of starting, kinds of traffic, stages, pages and help are made of this list; nothing
// else has one of its own.
package catalog

// Place is where a service stands in what a model does.
type Place uint8

// The places.
const (
	// Way: every token passes it, so that without a ready replica none flows.
	Way Place = iota
	// Loop: it is part of the control loop, without which tokens flow as well.
	Loop
	// Aside: it runs where an operator starts it, and no other service looks for it.
	Aside
)

// Service is what others know of a service.
type Service struct {
	// Name is its command, its user, and what its members call themselves.
	Name string
	// Noun is what one replica is called in messages; empty: the name.
	Noun string
	// Help is its line among the commands: a sentence with its full stop.
	Help  string
	Place Place
	// Fronts says that it hears and answers producers, in their account, by connections of
	// its own.
	Fronts bool

	// Outside says that it has the rights of all tenants' producers, in an account of its own,
	// and is no member of any model: it needs neither weights nor streams.
	Outside bool

	// Queue is the kind of messages that it takes of a durable queue; empty: none.
	Queue string
	// Tensors are the kinds of messages with rows that come to it.
	Tensors []string
	// Kinds are those that it reads or writes beside, and that no other service names.
	Kinds []string
	// DropsLate says that it counts the rows that it drops because they are not awaited any more.
	DropsLate bool

	// Lack is what tokenizers say, with the model's name for %s, while no replica on a token's
	// way is ready; empty: they do not ask.
	Lack string

	Role
}

// Role is the service as a user of the NATS server.
type Role struct {
	// What the user is, for people.
	What string
	// Grants are its rights for one model, but for those to drain and to receive answers.
	Grants func(ModelNames) []Grant
	// Can and Cannot are what an attacker with the user's credentials can do all the same, and
	// what not.
	Can, Cannot string
}

// Replica is what one replica of the service is called.
func (s Service) Replica() string {
	if s.Noun != "" {
		return s.Noun
	}
	return s.Name
}

// Takes are the kinds of messages whose traffic is counted for the service's sake.
func (s Service) Takes() (kinds []string) {
	if s.Queue != "" {
		kinds = append(kinds, s.Queue)
	}
	return append(append(kinds, s.Tensors...), s.Kinds...)
}
