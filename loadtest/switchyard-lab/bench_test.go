package main

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/services/switchyard/cli"
)

// A bench closes its model: none of the files stays mapped.
func TestBenchClosesModel(t *testing.T) {
	mapped := func() string {
		maps, err := os.ReadFile("/proc/self/maps")
		if errors.Is(err, fs.ErrNotExist) {
			t.Skip("this system does not say what is mapped")
		}
		if err != nil {
			t.Fatal(err)
		}
		return string(maps)
	}
	mapped()
	dir := filepath.Join(t.TempDir(), "closed")
	if err := os.CopyFS(dir, os.DirFS(goldens.Dir("mixtral"))); err != nil {
		t.Fatal(err)
	}
	got := invoke("", "bench", "--model", dir, "--rows", "4", "--seconds", "0.01")
	if got.Code != cli.ExitDone || !strings.Contains(got.Out, " 4 rows ") {
		t.Fatalf("got %+v", got)
	}
	if strings.Contains(mapped(), dir) {
		t.Errorf("files of %s are mapped still", dir)
	}
}

// What a bench cannot measure of a model is refused before anything is measured.
func TestBenchRefuses(t *testing.T) {
	t.Parallel()
	bert, both := goldens.Dir("bert_moe"), goldens.Dir("bert2bert_moe")
	for _, tc := range []struct {
		name string
		args []string
		want string
	}{
		{"an encoder", []string{"--model", bert}, "model bert_moe is an encoder, which fills masks: serve it (switchyard up --model DIR)"},
		{"an encoder's layers", []string{"--model", bert, "--rows", "4"}, "model bert_moe is an encoder"},
		{"an encoder's plans", []string{"--model", bert, "--rescale", "--batch", "1"}, "--rescale measures the time between tokens; model bert_moe is an encoder"},
		{"an encoder before a decoder", []string{"--model", both}, "model bert2bert_moe is an encoder before a decoder: serve it"},
		{
			"a batch without room", []string{"--synthetic", "mixtral-1b:1", "--batch", "1,256", "--prompt-tokens", "3000"},
			"--batch has 256; there is memory for the keys and values of 174 sequences of 3008 tokens: take a smaller --batch or --prompt-tokens\n",
		},
		{"rows beyond the positions", []string{"--synthetic", "tiny:1", "--rows", "8,4096"}, "--rows has 4096; model tiny_1 has 4096 positions: it must be 1 to 4095"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"bench", "--rounds", "1", "--seconds", "0.001"}, tc.args...)
			if got := invoke("", args...); got.Code != cli.ExitUsage || got.Out != "" || !strings.Contains(got.Err, tc.want) {
				t.Errorf("got %+v, want %q", got, tc.want)
			}
		})
	}
}

// interrupting is a signal in the middle of a command: after its first result.
type interrupting struct {
	Told   bytes.Buffer
	Signal context.CancelFunc
}

func (w *interrupting) Write(p []byte) (int, error) {
	w.Signal()
	return w.Told.Write(p)
}

// A bench that a signal ends says that, and not what became of its services.
func TestBenchInterrupted(t *testing.T) {
	t.Parallel()
	ctx, signal := context.WithCancel(t.Context())
	out, says := &interrupting{Signal: signal}, &bytes.Buffer{}
	args := []string{"bench", "--synthetic", "tiny", "--batch", "1,1", "--rounds", "1", "--seconds", "0.001"}
	code := program.RunUntil(ctx, args, cli.Stdio{In: strings.NewReader(""), Out: out, Err: says})
	// On a slow machine services say before that they try again.
	if said := says.String(); code != cli.ExitInterrupted || !strings.HasSuffix(said, "switchyard: interrupted\n") || strings.Count(said, "switchyard: ") != 1 || strings.Count(out.Told.String(), "batch 1") != 1 {
		t.Errorf("code %d, %q, %q", code, says.String(), out.Told.String())
	}
}

// A command that a signal ended says that, and not what broke by it.
func TestSignalBeforeWork(t *testing.T) {
	t.Parallel()
	texts, trace, out := write(t, strings.Repeat("Once upon a time there was a dog.\n<|endoftext|>\n", 9)), write(t, fewRequests), t.TempDir()+"/out"
	for _, args := range [][]string{
		{"record", "--out", out, texts},
		{"train-predictor", "--out", out, texts},
		{"arena", "--suite", "moeless", "--out", out, "--trace", trace},
		{"verify", "../../models/demo"},
	} {
		t.Run(args[0], func(t *testing.T) {
			ctx, signal := context.WithCancel(t.Context())
			signal()
			out, says := &bytes.Buffer{}, &bytes.Buffer{}
			code := program.RunUntil(ctx, args, cli.Stdio{In: strings.NewReader(""), Out: out, Err: says})
			if code != cli.ExitInterrupted || says.String() != "switchyard: interrupted\n" || out.Len() > 0 {
				t.Errorf("code %d, %q, %q", code, says.String(), out.String())
			}
		})
	}
}
