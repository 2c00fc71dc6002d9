package main

import (
	"encoding/base64"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/switchyard/switchyard/internal/testkit/testusers"
	"github.com/switchyard/switchyard/services/switchyard/cli"
)

// There is a Secret of each user but those who may do everything, and nothing of the keys
// that sign others' rights.
func TestSecrets(t *testing.T) {
	t.Parallel()
	f := testusers.Make(t, testusers.Demo("acme"))
	dir := filepath.Dir(f.CA())
	got := invoke("", "auth", "secrets", dir, "--namespace", "elsewhere")
	if got.Code != cli.ExitDone {
		t.Fatalf("%+v", got)
	}
	secrets := map[string]map[string]string{}
	for d := yaml.NewDecoder(strings.NewReader(got.Out)); ; {
		var s secret
		if err := d.Decode(&s); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if s.Kind != "Secret" || s.Metadata["namespace"] != "elsewhere" {
			t.Errorf("%s %v", s.Kind, s.Metadata)
		}
		secrets[s.Metadata["name"]] = s.Data
	}
	for name, file := range map[string]string{
		"switchyard-gate": f.Creds("gate"), "switchyard-producer-acme": f.Creds("producer-acme"), "switchyard-tokenizer": f.Creds("tokenizer"),
	} {
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if have, err := base64.StdEncoding.DecodeString(secrets[name]["nats.creds"]); err != nil || string(have) != string(want) {
			t.Errorf("%s has %d bytes of %d, %v", name, len(have), len(want), err)
		}
	}
	for _, name := range []string{"accounts.conf", "limits.conf", "nats.conf", "server.pem", "server-key.pem", "ca.pem"} {
		if secrets["nats"][name] == "" {
			t.Errorf("the servers have no %s", name)
		}
	}
	if secrets["switchyard-tokenizer"]["edge.creds"] == "" {
		t.Error("a tokenizer has no credentials among the producers")
	}
	for _, user := range []string{"admin", "sys"} {
		if _, ok := secrets["switchyard-"+user]; ok {
			t.Errorf("there is a Secret of %s", user)
		}
	}
	keys, err := filepath.Glob(filepath.Join(dir, "keys", "keys", "*", "*", "*.nk"))
	if err != nil || len(keys) == 0 {
		t.Fatalf("%d keys, %v", len(keys), err)
	}
	for name, data := range secrets {
		for file, text := range data {
			have, _ := base64.StdEncoding.DecodeString(text) // looked at above
			if slices.ContainsFunc(keys, func(key string) bool {
				seed, err := os.ReadFile(key)
				return err != nil || strings.Contains(string(have), string(seed))
			}) {
				t.Errorf("Secret %s has in %s a key that signs", name, file)
			}
		}
	}
	if got := invoke("", "auth", "secrets", t.TempDir()); got.Code != cli.ExitUsage {
		t.Errorf("of no folder: %+v", got)
	}
}
