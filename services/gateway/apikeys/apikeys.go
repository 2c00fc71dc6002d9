// Package apikeys reads and writes the file of a gateway's API keys. It has a line for each key,
// with the key's hash in the place of the key, then whose it is, and what it may do:
//
//	SHA-256 tenant class right=read models=demo,mixtral expires=2027-01-31T00:00:00Z # the web shop's
//
// Only the hash has to be there. What stands behind a # is for people.
package apikeys

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/switchyard/switchyard/schemas"
)

// What a key may do: Ask is all that the API has, Read is to list models and to count tokens, but
// to have nothing generated, cancelled or deleted. Operator is Ask, and to see the process's metrics and to
// decide what is traced, which tell of other tenants or cost them something.
const (
	Ask      = "ask"
	Read     = "read"
	Operator = "operator"
)

// Rights returns all rights.
func Rights() []string { return []string{Ask, Read, Operator} }

// Hash is what a file has of a key.
type Hash [sha256.Size]byte

// HashOf returns the hash of a key.
func HashOf(secret string) Hash { return sha256.Sum256([]byte(secret)) }

// Key is what a file says of a key.
type Key struct {
	Hash  Hash
	Flow  schemas.Flow
	Right string
	// Models are those that it may use; none: all.
	Models []string
	// Expires is when it is good no more; zero: never.
	Expires time.Time
	// Note is for people.
	Note string
}

// idDigits are those of a key's hash that tell it from others, for people.
const idDigits = 12

// ID names a key without telling it.
func (k Key) ID() string { return hex.EncodeToString(k.Hash[:])[:idDigits] }

// Uses reports whether the key may use a model.
func (k Key) Uses(model string) bool { return len(k.Models) == 0 || slices.Contains(k.Models, model) }

// Expired reports whether the key is good no more.
func (k Key) Expired(now time.Time) bool { return !k.Expires.IsZero() && !now.Before(k.Expires) }

// Check says why there can be no such key.
func (k Key) Check() error {
	if err := k.Flow.Check(); err != nil {
		return err
	}
	if !slices.Contains(Rights(), k.Right) {
		return fmt.Errorf("right %.40q is none of %s", k.Right, strings.Join(Rights(), ", "))
	}
	for _, m := range k.Models {
		if err := schemas.CheckModelToken(m); err != nil {
			return fmt.Errorf("a model of the key: %w", err)
		}
	}
	if strings.ContainsAny(k.Note, "\r\n") {
		return errors.New("a note is one line")
	}
	return nil
}

// line returns the key's line in a file.
func (k Key) line() string {
	words := []string{hex.EncodeToString(k.Hash[:]), k.Flow.Tenant, string(k.Flow.Class)}
	if k.Right != Ask {
		words = append(words, "right="+k.Right)
	}
	if len(k.Models) > 0 {
		words = append(words, "models="+strings.Join(k.Models, ","))
	}
	if !k.Expires.IsZero() {
		words = append(words, "expires="+k.Expires.UTC().Format(time.RFC3339))
	}
	if k.Note != "" {
		words = append(words, "# "+k.Note)
	}
	return strings.Join(words, " ")
}

// parse reads a line; nil: it has no key.
func parse(line string) (*Key, error) {
	text, note, _ := strings.Cut(line, "#")
	words := strings.Fields(text)
	if len(words) == 0 {
		return nil, nil //nolint:nilnil // a line for people
	}
	hash, err := hex.DecodeString(words[0])
	if err != nil || len(hash) != sha256.Size {
		return nil, errors.New("it does not begin with a key's SHA-256 in hex")
	}
	k := &Key{Hash: Hash(hash), Right: Ask, Note: strings.TrimSpace(note)}
	var whose []string
	for _, word := range words[1:] {
		name, value, is := strings.Cut(word, "=")
		switch {
		case !is:
			whose = append(whose, word)
			continue
		case name == "right":
			k.Right = value
		case name == "models":
			k.Models = strings.Split(value, ",")
		case name == "expires":
			if k.Expires, err = time.Parse(time.RFC3339, value); err != nil {
				return nil, fmt.Errorf("expires is %.40q; it is written as 2027-01-31T00:00:00Z", value)
			}
		default:
			return nil, fmt.Errorf("%.40q is none of right, models and expires", name)
		}
	}
	if len(whose) > 2 {
		return nil, fmt.Errorf("%.40q is neither its tenant nor its class", whose[2])
	}
	whose = append(whose, "", "")
	k.Flow = schemas.Flow{Tenant: whose[0], Class: schemas.Class(whose[1])}.OrDefault()
	return k, k.Check()
}

// Parse reads a file's content.
func Parse(data []byte) ([]Key, error) {
	f, err := parseFile(data)
	if err != nil {
		return nil, err
	}
	return f.Keys(), nil
}

// CheckWhole says why a content may be a part of what somebody is writing. To have no keys is said by a line
// without one.
func CheckWhole(data []byte) error {
	if len(bytes.TrimSpace(data)) == 0 {
		return errors.New("it is empty: if there are to be no keys, write a line that begins with #")
	}
	if data[len(data)-1] != '\n' {
		return errors.New("its last line has no end: write the file as a whole, or end it with a line feed")
	}
	return nil
}

// prefix begins the keys that are made here, so that a scanner of leaked secrets finds them.
const prefix = "sk-sy-"

// NewSecret returns a key that nobody can guess.
func NewSecret() string {
	random := make([]byte, 32)
	_, _ = rand.Read(random) // never fails
	return prefix + base64.RawURLEncoding.EncodeToString(random)
}
