package kafka

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestValidate(t *testing.T) {
	dir := t.TempDir()
	secret, empty := filepath.Join(dir, "secret"), filepath.Join(dir, "empty.pem")
	for file, text := range map[string]string{secret: "s3cret\n", empty: ""} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	local := []string{"127.0.0.1:9092"}
	for _, tt := range []struct {
		name    string
		config  Config
		problem string // empty: none
	}{
		{"loopback", Config{Brokers: local}, ""},
		{"several", Config{Brokers: []string{"localhost:1", "[::1]:2"}}, ""},
		{"none", Config{}, "names no broker"},
		{"no port", Config{Brokers: []string{"localhost"}}, "must be HOST:PORT"},
		{"empty port", Config{Brokers: []string{"localhost:"}}, "must be HOST:PORT"},
		{"port of letters", Config{Brokers: []string{"localhost:1", "localhost:abc"}}, `--kafka has "localhost:abc"; its port must be`},
		{"port too large", Config{Brokers: []string{"localhost:99999"}}, "from 1 to 65535"},
		{"port 0", Config{Brokers: []string{"localhost:0"}}, "from 1 to 65535"},
		{"last port", Config{Brokers: []string{"localhost:65535"}}, ""},
		{"no host", Config{Brokers: []string{":9092"}}, "must be HOST:PORT"},
		{"elsewhere", Config{Brokers: []string{"kafka:9092"}}, "another machine"},
		{"elsewhere, insecure", Config{Brokers: []string{"kafka:9092"}, Insecure: true}, ""},
		{"elsewhere, encrypted", Config{Brokers: []string{"kafka:9092"}, TLS: true}, ""},
		{"topic", Config{Brokers: local, Topic: "a b"}, "--kafka-topic"},
		{"topic of dots", Config{Brokers: local, Topic: ".."}, "--kafka-topic"},
		{"no authority", Config{Brokers: local, CA: filepath.Join(dir, "none")}, "--kafka-ca"},
		{"empty authority", Config{Brokers: local, CA: empty}, "no certificate"},
		{"user alone", Config{Brokers: local, User: "a"}, "need --kafka-sasl"},
		{"mechanism alone", Config{Brokers: local, SASL: "plain"}, "needs --kafka-user"},
		{"no password", Config{Brokers: local, SASL: "plain", User: "a", PasswordFile: filepath.Join(dir, "none")}, "--kafka-password-file"},
		{"mechanism", Config{Brokers: local, SASL: "gssapi", User: "a", PasswordFile: secret}, "must be plain"},
		{"plain", Config{Brokers: local, SASL: "plain", User: "a", PasswordFile: secret}, ""},
		{"scram", Config{Brokers: local, SASL: "scram-sha-512", User: "a", PasswordFile: secret}, ""},
	} {
		err := tt.config.Validate()
		if tt.problem == "" && err != nil || tt.problem != "" && (err == nil || !strings.Contains(err.Error(), tt.problem)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.problem)
		}
		if err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: the error has the password: %v", tt.name, err)
		}
	}
}
