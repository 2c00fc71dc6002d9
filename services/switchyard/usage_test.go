package main

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const accessLines = `{"time":"2027-01-30T23:59:59Z","id":"a","tenant":"acme","class":"normal","route":"/v1/chat/completions","model":"demo","status":200,"finish_reason":"stop","prompt_tokens":10,"cached_tokens":4,"completion_tokens":5,"queue":0,"ttft":0.1,"total":1}
{"time":"2027-01-31T01:00:00+02:00","tenant":"acme","model":"demo","status":200,"prompt_tokens":1,"cached_tokens":0,"completion_tokens":2}
{"time":"2027-01-31T00:00:00Z","tenant":"acme","model":"demo","status":429,"code":"overloaded","prompt_tokens":0,"cached_tokens":0,"completion_tokens":0}
{"time":"2027-01-31T00:00:00Z","tenant":"beta","model":"demo","status":200,"code":"internal","prompt_tokens":7,"cached_tokens":0,"completion_tokens":1}
{"time":"2027-02-01T00:00:00Z","status":401,"prompt_tokens":0,"cached_tokens":0,"completion_tokens":0}
`

// Access logs, rotated ones too, add up to a row a day, tenant and model; what is no line of them is told.
func TestUsageCommand(t *testing.T) {
	dir := t.TempDir()
	log, old := filepath.Join(dir, "access.log"), filepath.Join(dir, "access.log.1.gz")
	if err := os.WriteFile(log, []byte(accessLines+"\nnone\n"+strings.Repeat("x", 3*maxAccessLine)+"\n"+`{"time":"2027-02-01T00:00:00Z","tena`), 0o600); err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte(accessLines))
	_ = z.Close()
	if err := os.WriteFile(old, packed.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	const head = "day,tenant,model,requests,failed,prompt_tokens,cached_tokens,completion_tokens\n"
	for _, tc := range []struct {
		name  string
		stdin string
		args  []string
		out   string
		err   string
		code  int
	}{
		{"all", "", []string{"--csv", log}, head + "2027-01-30,acme,demo,2,0,11,4,7\n2027-01-31,acme,demo,1,1,0,0,0\n2027-01-31,beta,demo,1,1,7,0,1\n2027-02-01,-,-,1,1,0,0,0\n", "3 lines are no requests", 0},
		{"two logs, one day", "", []string{"--csv", "--since", "2027-01-30", "--until", "2027-01-30", log, old}, head + "2027-01-30,acme,demo,4,0,22,8,14\n", "", 0},
		{"stdin", accessLines, []string{"--json", "--since", "2027-02-01", "-"}, `{"day":"2027-02-01","tenant":"-","model":"-","requests":1,"failed":1,"prompt_tokens":0,"cached_tokens":0,"completion_tokens":0}` + "\n", "", 0},
		{"a table", accessLines, []string{"--until", "2027-01-30", "-"}, "DAY         TENANT  MODEL  REQUESTS  FAILED  PROMPT  CACHED  COMPLETION\n2027-01-30  acme    demo   2         0       11      4       7\n", "", 0},
		{"nothing", "", []string{"--csv", "-"}, head, "", 0},
		{"a name that a spreadsheet would compute", `{"time":"2027-01-31T00:00:00Z","tenant":"=cmd()","model":"-1\u001b[2J","status":200}`, []string{"--csv", "-"}, head + "2027-01-31,_cmd__,1__2J,1,0,0,0,0\n", "", 0},
		{"counts below nothing", `{"time":"2027-01-31T00:00:00Z","prompt_tokens":-5}`, []string{"--csv", "-"}, head, "1 lines", 0},
		{"no day", "", []string{"--since", "yesterday", "-"}, "", "--since", 2},
		{"no file", "", []string{filepath.Join(dir, "none")}, "", "no such file", 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := invoke(tc.stdin, append([]string{"usage"}, tc.args...)...)
			if got.Code != tc.code || got.Out != tc.out || !strings.Contains(got.Err, tc.err) {
				t.Errorf("%d\n%s\n%s\nwant %d\n%s\n%s", got.Code, got.Out, got.Err, tc.code, tc.out, tc.err)
			}
		})
	}
}
