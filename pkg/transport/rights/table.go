package rights

import (
	"slices"

	"github.com/switchyard/switchyard/pkg/transport/catalog"
	"github.com/switchyard/switchyard/schemas"
)

// Scope is what the rights are of.
type Scope struct {
	Prefix string  `json:"prefix"`
	Models []Model `json:"models"`
	// Tenants beside the default one; each has a producer of its own.
	Tenants []string `json:"tenants"`
	// Bounds are those of producers; what is 0 has its default.
	Bounds Bounds `json:"bounds"`
}

// Model is what of a model shows in the names of subjects and streams.
type Model struct {
	Name string `json:"name"`
	// MoELayers have a stream each.
	MoELayers []int `json:"moe_layers"`
	// Positions are the most tokens of a prompt and its answer; 0: unknown.
	Positions int `json:"positions,omitempty"`
	// Objects lets services move rows through objects, which plans with transfers indirect or pipelined need.
	Objects bool `json:"objects,omitempty"`
}

// User is one user of the server, with all its rights.
type User struct {
	Name string
	// What the user is, for people.
	What string
	// Inbox begins the user's inboxes, which no other user may read. A client sets it
	// (inbox_prefix in a NATS context).
	Inbox string
	// Account is where the user lives: what is published there is heard there alone.
	Account string
	Grants  []Grant
	// Bounds are what the server lets the user have; all 0: its own bounds.
	Bounds Bounds
	// Can and Cannot are what an attacker with the user's credentials can do all the
	// same, and what not.
	Can, Cannot string
}

// Grant is what a user needs for one purpose.
type Grant = catalog.Grant

// Names of the users that are neither a service nor a tenant's producer.
const (
	Producer = "producer" // of the default tenant
	Top      = "top"
	Operator = "operator"
	Setup    = "setup"
)

// Edge is the user by which tokenizers are in the producers' account.
const Edge = "tokenizer-edge"

// Tag marks the JWTs of users whose inboxes InboxOf tells.
const Tag = "switchyard"

// ProducerOf is the user who produces for a tenant.
func ProducerOf(tenant string) string {
	if tenant == schemas.DefaultTenant {
		return Producer
	}
	return Producer + "-" + tenant
}

// InboxOf is what begins a user's inboxes. Those of producers are the ones that
// services answer to.
func InboxOf(user string) string {
	if isOutside(user) {
		return schemas.DefaultInboxPrefix + user
	}
	if slices.Contains(catalog.Names(), user) || slices.Contains([]string{Top, Operator, Setup, Edge}, user) {
		return "_INBOX_" + user
	}
	return schemas.DefaultInboxPrefix + user
}

// Users are all users, services first.
func Users(s Scope) []User {
	all := slices.Concat(services(s.Tenants), []role{edge()}, producers(s.Tenants), others())
	users := make([]User, 0, len(all))
	for _, r := range all {
		users = append(users, s.user(r))
	}
	return users
}

// role is what makes a user.
type role struct {
	name string
	catalog.Role
}

// services are the users that services are. An operator can ask each to drain.
func services(tenants []string) (roles []role) {
	for _, s := range catalog.All() {
		of := s.Role
		if s.Outside { // operators, who ask to drain, are in the services' account
			of.Grants = func(n catalog.ModelNames) (all []Grant) {
				for _, t := range append([]string{schemas.DefaultTenant}, tenants...) {
					all = append(all, naming(t, n)...)
				}
				return append(all, s.Grants(n)...)
			}
			roles = append(roles, role{s.Name, of})
			continue
		}
		of.Grants = func(n catalog.ModelNames) []Grant { return append(s.Grants(n), catalog.Draining(n, s.Name)) }
		roles = append(roles, role{s.Name, of})
	}
	return roles
}

// user has a role's grants for each model, those of one reason together.
func (s Scope) user(r role) User {
	u := User{Name: r.name, What: r.What, Inbox: InboxOf(r.name), Account: AccountOf(r.name), Can: r.Can, Cannot: r.Cannot}
	if isProducer(u.Name) {
		u.Bounds = s.Bounds.OrDefaults()
	}
	u.add(Grant{Reason: "to receive answers, on inboxes of its own", Subscribe: []string{catalog.Under(u.Inbox)}})
	for _, m := range s.Models {
		names := catalog.NewModelNames(s.Prefix, m.Name, m.MoELayers)
		names.Streams.Moved = m.Objects
		for _, g := range r.Grants(names) {
			u.add(g)
		}
	}
	return u
}

// add adds a grant to the one with its reason. What is there already stays once.
func (u *User) add(g Grant) {
	i := slices.IndexFunc(u.Grants, func(have Grant) bool { return have.Reason == g.Reason })
	if i < 0 {
		u.Grants = append(u.Grants, Grant{Reason: g.Reason})
		i = len(u.Grants) - 1
	}
	to := &u.Grants[i]
	to.Publish, to.Subscribe = union(to.Publish, g.Publish), union(to.Subscribe, g.Subscribe)
}

// Publish is every subject that the user may publish to.
func (u User) Publish() (subjects []string) {
	for _, g := range u.Grants {
		subjects = union(subjects, g.Publish)
	}
	return subjects
}

// Subscribe is every subject that the user may subscribe to.
func (u User) Subscribe() (subjects []string) {
	for _, g := range u.Grants {
		subjects = union(subjects, g.Subscribe)
	}
	return subjects
}

func union(to, more []string) []string {
	for _, s := range more {
		if !slices.Contains(to, s) {
			to = append(to, s)
		}
	}
	return to
}
