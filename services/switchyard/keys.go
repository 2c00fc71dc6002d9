package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/gateway/apikeys"
	"github.com/switchyard/switchyard/services/switchyard/cli"
)

// KeysCmd looks after the API keys of gateways.
type KeysCmd struct {
	Add    KeysAddCmd    `cmd:"" help:"Make a key, and print it: nobody can print it again, as the file has its hash alone."`
	List   KeysListCmd   `cmd:"" help:"List keys by their ids, with what they may do."`
	Rotate KeysRotateCmd `cmd:"" help:"Put a new key in the place of one, and print it."`
	Revoke KeysRevokeCmd `cmd:"" help:"Take a key out."`
}

// KeysFile is the file of keys.
type KeysFile struct {
	HTTPKeys string `name:"http-keys" required:"" help:"File with the keys, as gateways have it; running ones see a change within half a second." placeholder:"FILE"`
}

// UnusedFlags returns the flags of every command that need a server.
func (KeysFile) UnusedFlags() []string {
	return []string{"nats", "creds", "tls-ca", "tls-cert", "tls-key", "insecure"}
}

// KeysAddCmd makes a key.
type KeysAddCmd struct {
	KeysFile `embed:""`
	Tenant   string   `default:"${tenant}" help:"Tenant in whose name it asks." placeholder:"NAME"`
	Class    string   `default:"normal" help:"Class of its requests: high, normal or low." placeholder:"NAME"`
	Right    string   `default:"ask" enum:"ask,read,operator" help:"What it may do: ask, which is all, or read, which is to list models and to count tokens; operator sees metrics, too." placeholder:"RIGHT"`
	Models   []string `help:"Models that it may use; all without it." placeholder:"NAME"`
	Expires  string   `help:"How long it is good, such as 720h or 30d, or until when, such as 2027-01-31; for ever without it." placeholder:"TIME"`
	Note     string   `arg:"" optional:"" help:"What it is for, for people."`
}

// KeysListCmd lists keys.
type KeysListCmd struct {
	KeysFile `embed:""`
	JSON     bool `name:"json" help:"Print a JSON object a line."`
}

// KeysRotateCmd renews a key.
type KeysRotateCmd struct {
	KeysFile `embed:""`
	Keep     time.Duration `default:"0" help:"How long the old key is good beside the new one." placeholder:"TIME"`
	ID       string        `arg:"" name:"id" help:"The key's id, or how it begins, as keys list prints it."`
}

// KeysRevokeCmd takes a key out.
type KeysRevokeCmd struct {
	KeysFile `embed:""`
	ID       string `arg:"" name:"id" help:"The key's id, or how it begins, as keys list prints it."`
}

// Run makes a key.
func (c *KeysAddCmd) Run(e *cli.Env) error {
	secret := apikeys.NewSecret()
	k := apikeys.Key{Hash: apikeys.HashOf(secret), Flow: schemas.Flow{Tenant: c.Tenant, Class: schemas.Class(c.Class)}, Right: c.Right, Models: c.Models, Note: c.Note}
	expires, err := expiry(c.Expires, time.Now())
	if err == nil {
		k.Expires = expires
		err = k.Check()
	}
	if err != nil {
		return cli.Usage(err)
	}
	if err := apikeys.Edit(c.HTTPKeys, func(f *apikeys.File) error { return f.Add(k) }); err != nil {
		return err
	}
	return tellKey(e, k, secret)
}

// tellKey prints a key to who is to have it, and its id to who looks after it.
func tellKey(e *cli.Env, k apikeys.Key, secret string) error {
	if _, err := fmt.Fprintln(e.Out, secret); err != nil {
		return fmt.Errorf("printing the key (revoke %s: nobody has it): %w", k.ID(), err)
	}
	e.Say(fmt.Sprintf("key %s of tenant %s; it is printed this once\n", k.ID(), k.Flow.Tenant), "key", "id", k.ID(), "tenant", k.Flow.Tenant)
	return nil
}

// expiry reads how long a key is good, or until when.
func expiry(text string, now time.Time) (until time.Time, err error) {
	if text == "" {
		return until, nil
	}
	lasts, err := time.ParseDuration(text)
	if days, is := strings.CutSuffix(text, "d"); is {
		var n int
		n, err = strconv.Atoi(days)
		lasts = time.Duration(min(max(n, 0), 100_000)) * 24 * time.Hour
	}
	if err == nil {
		until = now.Add(lasts).UTC().Truncate(time.Second)
	} else if until, err = time.Parse(time.DateOnly, text); err != nil {
		until, err = time.Parse(time.RFC3339, text)
	}
	if err != nil || !until.After(now) {
		return until, fmt.Errorf("--expires is %q; it must be a time to come, such as 720h, 30d or 2027-01-31", text)
	}
	return until, nil
}

// listedKey is what --json prints of a key.
type listedKey struct {
	ID      string   `json:"id"`
	Tenant  string   `json:"tenant"`
	Class   string   `json:"class"`
	Right   string   `json:"right"`
	Models  []string `json:"models"` // none: all
	Expires string   `json:"expires,omitempty"`
	Expired bool     `json:"expired"`
	Note    string   `json:"note,omitempty"`
}

func listed(k apikeys.Key, now time.Time) listedKey {
	l := listedKey{ID: k.ID(), Tenant: k.Flow.Tenant, Class: string(k.Flow.Class), Right: k.Right, Models: append([]string{}, k.Models...), Expired: k.Expired(now), Note: k.Note}
	if !k.Expires.IsZero() {
		l.Expires = k.Expires.UTC().Format(time.RFC3339)
	}
	return l
}

// Run lists keys.
func (c *KeysListCmd) Run(e *cli.Env) error {
	f, err := apikeys.Open(c.HTTPKeys)
	if err != nil {
		return cli.Usage(err)
	}
	now, encoder := time.Now(), json.NewEncoder(e.Out)
	if c.JSON {
		for _, k := range f.Keys() {
			if err := encoder.Encode(listed(k, now)); err != nil {
				return err
			}
		}
		return nil
	}
	table := tabwriter.NewWriter(e.Out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "ID\tTENANT\tCLASS\tRIGHT\tMODELS\tEXPIRES\tNOTE") // Flush tells errors
	for _, k := range f.Keys() {
		l := listed(k, now)
		models, expires := strings.Join(l.Models, ","), l.Expires
		if models == "" {
			models = "all"
		}
		if expires == "" {
			expires = "never"
		} else if l.Expired {
			expires = "expired " + expires
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", l.ID, l.Tenant, l.Class, l.Right, models, expires, l.Note) // as above
	}
	return table.Flush()
}

// Run renews a key.
func (c *KeysRotateCmd) Run(e *cli.Env) error {
	if c.Keep < 0 {
		return cli.Usage(fmt.Errorf("--keep is %v; it must not be below 0", c.Keep))
	}
	now, secret := time.Now(), apikeys.NewSecret()
	var k apikeys.Key
	err := apikeys.Edit(c.HTTPKeys, func(f *apikeys.File) (err error) {
		k, err = f.Rotate(c.ID, secret, now.Add(c.Keep).UTC().Truncate(time.Second), now)
		return err
	})
	if err != nil {
		return err
	}
	return tellKey(e, k, secret)
}

// Run takes a key out.
func (c *KeysRevokeCmd) Run(e *cli.Env) error {
	var k apikeys.Key
	err := apikeys.Edit(c.HTTPKeys, func(f *apikeys.File) (err error) { k, err = f.Revoke(c.ID); return err })
	if err != nil {
		return err
	}
	e.Say(fmt.Sprintf("key %s of tenant %s is gone\n", k.ID(), k.Flow.Tenant), "revoked", "id", k.ID(), "tenant", k.Flow.Tenant)
	return nil
}
