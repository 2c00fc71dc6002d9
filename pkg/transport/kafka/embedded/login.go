package embedded

import (
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/xdg-go/scram"
)

// login knows the one user there is.
type login struct {
	servers map[string]*scram.Server // by mechanism
}

// mechanisms are how a user proves the password without telling it.
var mechanisms = []struct {
	name string
	hash scram.HashGeneratorFcn
}{{"SCRAM-SHA-256", scram.SHA256}, {"SCRAM-SHA-512", scram.SHA512}}

// iterations are the least that RFC 7677 allows: the password is a long random one.
const iterations = 4096

// errUser is of a user that there is not.
var errUser = errors.New("no such user")

func newLogin(user, password string) (*login, error) {
	l := &login{servers: map[string]*scram.Server{}}
	for _, m := range mechanisms {
		client, err := m.hash.NewClient(user, password, "")
		if err != nil {
			return nil, fmt.Errorf("the embedded Kafka broker's user: %w", err)
		}
		stored := client.GetStoredCredentials(scram.KeyFactors{Salt: rand.Text(), Iters: iterations})
		l.servers[m.name], err = m.hash.NewServer(func(name string) (scram.StoredCredentials, error) {
			if name != user {
				return scram.StoredCredentials{}, errUser
			}
			return stored, nil
		})
		if err != nil {
			return nil, fmt.Errorf("the embedded Kafka broker's login: %w", err)
		}
	}
	return l, nil
}

// begin starts a conversation by a mechanism; nil: there is none of that name.
func (l *login) begin(mechanism string) *scram.ServerConversation {
	if l == nil || l.servers[mechanism] == nil {
		return nil
	}
	return l.servers[mechanism].NewConversation()
}

// names are those of the mechanisms; none where nobody is asked.
func (l *login) names() (names []string) {
	if l == nil {
		return nil
	}
	for _, m := range mechanisms {
		names = append(names, m.name)
	}
	return names
}
