package main

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"gopkg.in/yaml.v3"

	"github.com/switchyard/switchyard/pkg/transport/credentials"
	"github.com/switchyard/switchyard/pkg/transport/rights"
	"github.com/switchyard/switchyard/services/switchyard/cli"
)

// AuthSecretsCmd prints a folder's files as Kubernetes takes them.
type AuthSecretsCmd struct {
	Namespace string `env:"-" default:"switchyard" help:"The namespace of the Secrets." placeholder:"NAME"`
	Dir       string `arg:"" name:"dir" help:"A folder that auth init has made."`
}

// secret is a Kubernetes Secret.
type secret struct {
	APIVersion string            `yaml:"apiVersion"`
	Kind       string            `yaml:"kind"`
	Metadata   map[string]string `yaml:"metadata"`
	Data       map[string]string `yaml:"data"`
}

// Run prints one Secret for the servers, and one for each user but those who may do
// everything.
func (c *AuthSecretsCmd) Run(e *cli.Env) error {
	f, err := credentials.Open(c.Dir)
	if err != nil {
		return cli.Usage(err)
	}
	secrets, err := c.secrets(f)
	if err != nil {
		return err
	}
	out := yaml.NewEncoder(e.Out)
	for _, s := range secrets {
		if err := out.Encode(s); err != nil {
			return err
		}
	}
	return out.Close()
}

func (c *AuthSecretsCmd) secrets(f credentials.Folder) ([]secret, error) {
	files, err := filepath.Glob(filepath.Join(f.ServerFolder(), "*.*"))
	if err != nil {
		return nil, err
	}
	server := map[string]string{}
	for _, file := range files {
		server[filepath.Base(file)] = file
	}
	servers, err := c.secret("nats", server)
	users, usersErr := f.Users()
	all, errs := []secret{servers}, []error{err, usersErr}
	for _, user := range users {
		if slices.Contains([]string{credentials.Admin, credentials.System}, user) {
			continue
		}
		s, err := c.secret("switchyard-"+user, userFiles(f, user))
		all, errs = append(all, s), append(errs, err)
	}
	return all, errors.Join(errs...)
}

// userFiles returns what a user logs in with, by the names that deploy/kubernetes knows them by.
// A tokenizer logs in a second time, among the producers.
func userFiles(f credentials.Folder, user string) map[string]string {
	files := map[string]string{"nats.creds": f.Creds(user), "ca.pem": f.CA()}
	if user == "tokenizer" {
		files["edge.creds"] = f.Creds(rights.Edge)
	}
	return files
}

func (c *AuthSecretsCmd) secret(name string, files map[string]string) (secret, error) {
	s := secret{
		APIVersion: "v1", Kind: "Secret", Data: map[string]string{},
		Metadata: map[string]string{"name": name, "namespace": c.Namespace},
	}
	for key, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			return s, fmt.Errorf("reading for Secret %s: %w", name, err)
		}
		s.Data[key] = base64.StdEncoding.EncodeToString(data)
	}
	return s, nil
}
