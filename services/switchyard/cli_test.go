package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/internal/flagvalue"
	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/transport/natsserver"
	"github.com/switchyard/switchyard/services/switchyard/cli"
)

// withoutBandwidth is a profile's file that says nothing of the link.
func withoutBandwidth(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../pkg/compute/device/paced/profiles/rtx3090-mixtral.yaml")
	if err != nil {
		t.Fatal(err)
	}
	before, after, ok := strings.Cut(string(text), "\nbytes_per_second:")
	_, after, more := strings.Cut(after, "\ncold_start_seconds:")
	path := filepath.Join(t.TempDir(), "card.yaml")
	if err := os.WriteFile(path, []byte(before+"\ncold_start_seconds:"+after), 0o600); err != nil || !ok || !more {
		t.Fatal(err, ok, more)
	}
	return path
}

func TestUsage(t *testing.T) {
	tests := []struct {
		name string
		args []string
		code int
		want string // on stdout for code 0, else on stderr
	}{
		{"help", []string{"--help"}, 0, "--log-level"},
		{"command's help", []string{"prompt", "--help"}, 0, "SWITCHYARD_MAX_TOKENS"},
		{"version", []string{"version"}, 0, "switchyard 0.1.0"},
		{"--version", []string{"--version"}, 0, "switchyard 0.1.0"},
		{"nothing", nil, 2, "Usage: switchyard <command>"},
		{"no such command", []string{"fly"}, 2, "; switchyard --help lists what there is"},
		{"nobody to drain", []string{"drain"}, 2, "; switchyard drain --help lists what there is"},
		{"nothing to do with letters", []string{"dlq"}, 2, "; switchyard dlq --help lists what there is"},
		{"no such flag", []string{"version", "--fast"}, 2, "unknown flag --fast"},
		{"not a number", []string{"prompt", "hi", "--max-tokens", "x"}, 2, "--max-tokens"},
		{"a model's name that is no token", []string{"prompt", "hi", "--model", strings.Repeat("m", 65)}, 2, "--model has 65 bytes; a model's name has at most 64"},
		{"a model's name beyond the bound", []string{"up", "--name", strings.Repeat("m", 65)}, 2, "of 65 bytes is no name of a model in subjects: those have 1 to 64 letters, digits, '_' and '-': give a shorter --name, or the folder one"},
		{"a folder's beyond it", []string{"gate", "--model", "/nonexistent/" + strings.Repeat("m", 65)}, 2, "of 65 bytes is no name of a model"},
		{"one of several folders' beyond it", []string{"up", "--model", "/nonexistent/m", "--model", "/nonexistent/" + strings.Repeat("m", 65)}, 2, "of 65 bytes is no name of a model"},
		{"a prefix that is no token", []string{"dlq", "ls", "--prefix", strings.Repeat("p", 257)}, 2, "--prefix has 257 bytes"},
		{"no such level", []string{"version", "--log-level", "loud"}, 2, "--log-level"},
		{"no config file", []string{"version", "--config", "/nonexistent.yaml"}, 2, "reading the configuration"},
		{"empty stdin", []string{"prompt"}, 2, "stdin is empty"},
		{"no server", []string{"prompt", "hi", "--nats", "nats://127.0.0.1:1", "--connect-timeout", "200ms"}, 3, "no connection"},
		{"no credentials", []string{"gate", "--creds", "/nonexistent.creds"}, 2, "unusable credentials: open /nonexistent.creds"},
		{"no patience", []string{"top", "--connect-timeout", "0s"}, 2, "--connect-timeout is 0s"},
		{"KV below a page", []string{"up", "--kv-memory", "1KiB"}, 2, "switchyard: --kv-memory is 1024 bytes; a page of model demo has 262144"},
		{"unknown order", []string{"up", "--offload", "lur"}, 2, `switchyard: --offload is "lur"; there is none, lru, lfu, fmoe, next-use`},
		{"no maps", []string{"up", "--maps", "0"}, 2, `switchyard: --maps is "0"; give a number of 1 or more, such as 1000, or leave it out`},
		{"a file without maps", []string{"up", "--maps-file", "x"}, 2, `switchyard: --maps-file is "x", and no maps are kept: give --maps, such as 1000`},
		{"maps too far ahead", []string{"up", "--offload", "fmoe", "--distance", "8"}, 2, "--distance is 8; with the 8 layers of model demo it must be 1 to 7"},
		{"memory below an expert to offload", []string{"up", "--offload", "fmoe", "--expert-memory", "1KiB"}, 2, "switchyard: --expert-memory is 1024 bytes; an expert of model demo has 196608"},
		{"memory below an expert", []string{"up", "--expert-memory", "1KiB"}, 2, "switchyard: --expert-memory is 1024 bytes; an expert of model demo has 196608"},
		{"no such scaling in up", []string{"up", "--scaling", "magic"}, 2, `--scaling: there is no policy "magic"; there are: static, eplb,`},
		{"no host", []string{"up", "--hosts", "0"}, 2, "switchyard: --hosts is 0; it must be 1 to 256"},
		{"too many hosts", []string{"up", "--hosts", "100000"}, 2, "switchyard: --hosts is 100000; it must be 1 to 256"},
		{"no such device", []string{"expert", "--device", "abacus"}, 2, "it must be cpu, paced, cuda or cuda:N"},
		{"no such device for attention", []string{"attention", "--device", "paced"}, 2, "it must be cpu, cuda or cuda:N"},
		{"no such device for gates", []string{"gate", "--device", "paced"}, 2, "--device is \"paced\"; it must be cpu, cuda or cuda:N"},
		{"gates on a GPU without CUDA", []string{"up", "--gate-device", "cuda:1"}, 2, "switchyard: --gate-device cuda:1: this binary has no CUDA"},
		{"GPU memory of a CPU", []string{"up", "--attention-gpu-memory", "1GiB"}, 2, "switchyard: --attention-gpu-memory is 1GiB; it is of --attention-device cuda only"},
		{"GPU kernels of a CPU", []string{"up", "--gpu-kernels", "wgmma"}, 2, "switchyard: --gpu-kernels is wgmma; it is of --device cuda only"},
		{"no such precision", []string{"up", "--precision", "q5"}, 2, `--precision must be one of "bf16","w16a16","q8","q4","w8a8","w4a8","a8" but got "q5"`},
		{"no such kind of keys", []string{"up", "--kv-cache-dtype", "fp8"}, 2, `--kv-cache-dtype must be one of "auto","f32","bf16","int8" but got "fp8"`},
		{"no such GPU kernels", []string{"expert", "--gpu-kernels", "abacus"}, 2, `"auto","mma","wgmma" but got "abacus"`},
		{"two models to serve", []string{"up", "--synthetic", "tiny", "--model", "x"}, 2, "switchyard: --model and --synthetic exclude each other"},
		{"a shape that nobody knows", []string{"up", "--synthetic", "huge"}, 2, `switchyard: no synthetic model is called "huge"; there are `},
		{"paced as nothing", []string{"expert", "--device", "paced"}, 2, "switchyard: --device paced needs --profile: a100x4-qwen1.5-moe, a6000-deepseek-v3, a6000-llama-4-scout"},
		{"profile of a CPU", []string{"up", "--profile", "a6000-mixtral"}, 2, `switchyard: --profile is "a6000-mixtral"; it is of --device paced only`},
		{"no such profile", []string{"up", "--device", "paced", "--profile", "tpu"}, 2, `switchyard: --profile: there is no profile and no file "tpu"`},
		{
			"profile without bandwidth", []string{"up", "--device", "paced", "--profile", withoutBandwidth(t), "--offload", "fmoe", "--expert-memory", "2GB"}, 2,
			`card.yaml:2: "bytes_per_second" is missing in the profile; add it`,
		},
		{
			"memory below a profile's expert", []string{"up", "--device", "paced", "--profile", "a6000-mixtral", "--expert-memory", "1MiB"}, 2,
			"switchyard: --expert-memory is 1048576 bytes; an expert of profile a6000-mixtral has 352321536",
		},
		{
			"memory above a profile's", []string{"expert", "--device", "paced", "--profile", "a6000-mixtral", "--expert-memory", "64GiB"}, 2,
			"switchyard: --expert-memory is 68719476736 bytes; profile a6000-mixtral has 48000000000",
		},
		{"a model of several that is not there", []string{"up", "--model", "../../models/demo", "--model", "/nonexistent"}, 2, "opening model /nonexistent: there is no such folder"},
		{"the demo model as a folder", []string{"gate", "--model", "demo"}, 2, "the demo model is served without --model"},
		{"two models of a name", []string{"up", "--model", "../../models/demo", "--model", "elsewhere/demo"}, 2, `switchyard: --model ../../models/demo and --model elsewhere/demo would both be served as "demo"`},
		{"a name of two models", []string{"up", "--name", "x", "--model", "a", "--model", "b"}, 2, `switchyard: --name is "x", and there are 2 models: leave it out`},
		{"two models on a GPU", []string{"up", "--gate-device", "cuda", "--model", "a", "--model", "b"}, 2, "switchyard: --gate-device is cuda, and there are 2 models"},
		{"two models of a service", []string{"gate", "--model", "a", "--model", "b"}, 2, "switchyard: --model is given 2 times (a, b); this process serves one model"},
		{"a model of the store beside another", []string{"up", "--model", "a", "--model", "nats://b"}, 2, `switchyard: --model is "nats://b"; up starts the server`},
		{"nowhere to listen", []string{"up", "--listen", ""}, 2, "switchyard: --listen is empty: no client could reach the model; it must be HOST:PORT, such as 127.0.0.1:4222"},
		{"copies of a stream", []string{"up", "--replicas", "6"}, 2, "switchyard: --replicas is 6; NATS keeps at most 5 copies of a stream"},
		{"beyond the model", []string{"up", "--max-model-len", "513"}, 2, "switchyard: --max-model-len is 513; model demo was made for at most 512 positions"},
		{"traces to a word", []string{"gate", "--otlp-endpoint", "foo"}, 2, `switchyard: --otlp-endpoint "foo"`},
		{"metrics at no port", []string{"gate", "--metrics-addr", ":99999"}, 2, `switchyard: --metrics-addr is ":99999"; its port must be a number from 0, which takes a free one, to 65535`},
		{"listening at no port", []string{"up", "--listen", ":99999"}, 2, `switchyard: --listen is ":99999"; its port must be a number from 0, which takes a free one, to 65535`},
		{"listening at no address", []string{"up", "--listen", "4222"}, 2, `switchyard: --listen is "4222"; it must be HOST:PORT, such as 127.0.0.1:4222`},
		{"no such model", []string{"gate", "--model", "/nonexistent"}, 2, "opening model /nonexistent"},
		{"plain off the loopback", []string{"prompt", "hi", "--nats", "nats://192.0.2.1"}, 2, "--insecure"},
		{"a model that is served", []string{"inspect", "--json", "../../models/demo"}, 0, `"kv_bytes_per_token":8192,"servable":true,"reason":""`},
		{"keys and values in 8 bits", []string{"inspect", "--json", "--kv-cache-dtype", "int8", "../../models/demo"}, 0, `"kv_bytes_per_token":2304,"servable":true,"reason":"","kv_dtype":"int8"`},
		{"latents in 8 bits", []string{"inspect", "--json", "--kv-cache-dtype", "int8", goldens.Dir("deepseek_v2")}, 0, `"kv_dtype":"int8"`},
		{"a rented expert", []string{"inspect", "--json", "--platform", "lambda", "--rows", "16", "../../models/demo"}, 0, `{"expert_bytes":393216,"rows":16,"most_rows":12288,`},
		{"no platform", []string{"inspect", "--platform", "lamda", "../../models/demo"}, 2, `--platform: there is no platform and no file "lamda"; the platforms are kubernetes, lambda`},
		{"rows of nothing", []string{"inspect", "--rows", "16", "../../models/demo"}, 2, "--rows is of --platform only; leave it out"},
		{"no model to look at", []string{"inspect", "/nonexistent"}, 2, "there is no readable config.json of a model"},
		{"a look back", []string{"top", "--once", "--span=-1s"}, 2, "switchyard: --span is -1s; it must be 0 or more"},
		{"no such context", []string{"top", "--nats", "nowhere"}, 2, "nowhere"},
		{"no such context of a service", []string{"gate", "--nats", "nowhere"}, 2, "nowhere"},
		{"no NATS URL", []string{"gate", "--nats", "http://127.0.0.1:8222"}, 2, "http://127.0.0.1:8222: its scheme must be one of nats"},
		{"an empty prompt of the demo", []string{"demo", ""}, 2, "switchyard: bad_prompt: the prompt is empty"},
	}
	for _, tt := range testkit.Some(tests) {
		t.Run(tt.name, func(t *testing.T) {
			got := invoke("", tt.args...)
			text := got.Err
			if tt.code == 0 {
				text = got.Out
			}
			if got.Code != tt.code || !strings.Contains(text, tt.want) {
				t.Errorf("got %+v, want code %d and %q", got, tt.code, tt.want)
			}
		})
	}
}

// TestBadKernel runs itself again, because the choice is read at start.
func TestBadKernel(t *testing.T) {
	if os.Getenv("SWITCHYARD_KERNEL") != "fastest" {
		again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestBadKernel$")
		again.Env = append(os.Environ(), "SWITCHYARD_KERNEL=fastest")
		if out, err := again.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	if got := invoke("", "version"); got.Code != 2 || !strings.Contains(got.Err, `SWITCHYARD_KERNEL: unknown kernel variant "fastest"`) {
		t.Errorf("got %+v", got)
	}
}

// TestPrecedence wants flags before the environment before the file before defaults.
func TestPrecedence(t *testing.T) {
	const file = "nats: nats://file\nlog: {level: warn}\nprompt:\n  max-tokens: 3\n  stop: [a, b]\n  temperature: 0.5\n"
	tests := []struct {
		name string
		args []string
		Env  map[string]string
		want string
	}{
		{"file", nil, nil, "nats://file"},
		{"environment", nil, map[string]string{"SWITCHYARD_NATS": "nats://env"}, "nats://env"},
		{"flag", []string{"--nats", "nats://flag"}, map[string]string{"SWITCHYARD_NATS": "nats://env"}, "nats://flag"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("SWITCHYARD_CONFIG", write(t, file))
			for key, value := range tt.Env {
				t.Setenv(key, value)
			}
			var c CLI
			if _, err := parse(&c, append(tt.args, "prompt", "hi"), cli.Stdio{}); err != nil {
				t.Fatal(err)
			}
			if c.NATS != tt.want || c.LogLevel != "warn" || c.LogFormat != "text" {
				t.Errorf("got %+v", c.Globals)
			}
			p := c.Prompt
			if p.MaxTokens == nil || *p.MaxTokens != 3 || len(p.Stop) != 2 || *p.Temperature != 0.5 || p.TopK != nil {
				t.Errorf("got %+v", p)
			}
		})
	}
}

func TestBadConfig(t *testing.T) {
	tests := []struct{ name, file, want string }{
		{"unknown key", "\n\nnatz: x\n", `yaml:3: "natz" is no flag`},
		{"command's flag at the top", "max-tokens: 3\n", `yaml:1: "max-tokens" is no flag`},
		{"unknown nested key", "prompt:\n  temperature: 1\n  max-token: 3\n", `yaml:3: "prompt: max-token" is no flag`},
		{"unknown mapping", "promt:\n  temperature: 1\n", `yaml:1: "promt" is no flag`},
		{"no YAML", "nats: x\na: [", "yaml: line 2"},
		{"no mapping", "nats\n", "yaml:1: the file must have flags' names"},
		{"wrong type", "prompt:\n  max-tokens: many\n", `--max-tokens: `},
		{"wrong type's line", "prompt:\n  max-tokens: many\n", `yaml:2: expected a valid 32 bit int but got "many"`},
		{"mapping for a value", "nats:\n  url: x\n", `yaml:1: "nats" has keys of its own`},
		{"mapping for a number", "prompt:\n  max-tokens: {a: 1}\n", `yaml:2: "prompt: max-tokens" has keys of its own`},
		{"list for a value", "nats: [a, b]\n", "yaml:1: a list stands where one value is wanted"},
		{"none of a set", "log-level: loud\n", `yaml:1: "loud" is none of debug,info,warn,error`},
		{"twice", "nats: a\nnats: b\n", `yaml:2: "nats" is already defined in line 1`},
	}
	for _, tt := range testkit.Some(tests) {
		t.Run(tt.name, func(t *testing.T) {
			got := invoke("", "prompt", "hi", "--config="+write(t, tt.file))
			if got.Code != 2 || !strings.Contains(got.Err, tt.want) {
				t.Errorf("got %+v, want %q", got, tt.want)
			}
		})
	}
}

func TestStrayVariables(t *testing.T) {
	t.Setenv("SWITCHYARD_KV_MEMROY", "1GiB")
	t.Setenv("SWITCHYARD_KV_MEMORY", "1GiB")
	t.Setenv("SWITCHYARD_KERNEL", "")
	t.Setenv("SWITCHYARD_GATE_SERVICE_HOST", "10.0.0.1")
	t.Setenv("SWITCHYARD_PORT_4222_TCP_ADDR", "10.0.0.1")
	got := invoke("", "version")
	if got.Code != 0 || !strings.Contains(got.Err, `names="SWITCHYARD_KV_MEMROY (did you mean SWITCHYARD_KV_MEMORY?)"`+"\n") {
		t.Errorf("got %+v", got)
	}
}

// What deploy sets is read, with the variables of Compose in it replaced.
func TestDeployedVariables(t *testing.T) {
	setting := regexp.MustCompile(`(?m)^ +(SWITCHYARD_[A-Z_]+): (.*)$`)
	variable := regexp.MustCompile(`\$\{[^}]*\}`)
	for _, file := range []string{"compose.yaml", "kubernetes/settings.yaml"} {
		text, err := os.ReadFile("../../deploy/" + file)
		if err != nil {
			t.Fatal(err)
		}
		names := setting.FindAllSubmatch(text, -1)
		for _, name := range names {
			t.Setenv(string(name[1]), variable.ReplaceAllString(strings.Trim(string(name[2]), `"`), "secret"))
		}
		if got := invoke("", "version"); len(names) == 0 || got.Code != 0 || strings.Contains(got.Err, "nothing reads") {
			t.Errorf("%s: %d variables: %+v", file, len(names), got)
		}
	}
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "switchyard.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A second `up` on a folder is refused, and told who has it.
func TestUpOnFolderInUse(t *testing.T) {
	dir := t.TempDir()
	first, err := natsserver.Start(natsserver.Settings{StoreDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Shutdown()
	got := invoke("", "up", "--data", dir, "--listen", "127.0.0.1:0", "--http", "off")
	want := fmt.Sprintf("%s belongs to process %d on ", dir, os.Getpid())
	if got.Code != cli.ExitUsage || !strings.Contains(got.Err, want) {
		t.Errorf("got %+v, want %q", got, want)
	}
}

// What takes memory or goroutines from the start is bounded. A command that takes more
// ends as well, since it is asked to stop.
func TestBounds(t *testing.T) {
	stopped, stop := context.WithCancel(t.Context())
	stop()
	tests := []struct{ flag, value, bounds, commands string }{
		{"threads", "4097", "0 to 4096", "up tokenizer attention gate expert aggregator predictor"},
		{"threads", "-1", "0 to 4096", "up tokenizer attention gate expert aggregator predictor"},
		{"max-sequences", "65537", "1 to 65536", "up attention"},
		{"max-sequences", "0", "1 to 65536", "up attention"},
		{"max-rows", "65537", "1 to 65536", "up attention"},
		{"microbatches", "257", "1 to 256", "up attention"},
		{"min-rows", "65537", "0 to 65536", "up attention"},
		{"max-queued", "1048577", "1 to 1048576", "up tokenizer"},
		{"kv-memory", "1025TiB", "at most 1024TiB", "up attention"},
		{"expert-memory", "4611686018427387904", "at most 1024TiB", "up expert"},
		{"memory-cap", "2000TiB", "at most 1024TiB", "up scaler"},
		{"log-bytes", "4611686018427387904", "at most 1024TiB", "up gate"},
	}
	for _, tt := range testkit.Some(tests) {
		for command := range strings.FieldsSeq(tt.commands) {
			var out, errOut bytes.Buffer
			code := runUntil(stopped, []string{command, "--" + tt.flag + "=" + tt.value}, cli.Stdio{In: strings.NewReader(""), Out: &out, Err: &errOut})
			want := fmt.Sprintf("--%s is %s; it must be %s\n", tt.flag, tt.value, tt.bounds)
			if code != cli.ExitUsage || !strings.Contains(errOut.String(), want) {
				t.Errorf("%s: code %d, %s, want %q", command, code, errOut.String(), want)
			}
		}
	}
}

// A flag that allows more memory than the machine has is warned of, and nothing is said of
// others'.
func TestBeyondThisMachine(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("this system does not say how much memory it has")
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for flag, commands := range map[string]string{"--kv-memory": "attention up", "--expert-memory": "expert up"} {
		for command := range strings.FieldsSeq(commands) {
			var errOut bytes.Buffer
			runUntil(stopped, []string{command, flag, "1024TiB"}, cli.Stdio{In: strings.NewReader(""), Out: io.Discard, Err: &errOut})
			want := fmt.Sprintf("flag=%s bytes=%d limit_bytes=", flag, uint64(flagvalue.MostBytes))
			if said := errOut.String(); strings.Count(said, want) != 1 || strings.Count(said, "limit_bytes") != 1 {
				t.Errorf("%s: %s, want one %q", command, said, want)
			}
		}
	}
}

// Brokers that nobody can connect to are refused before anything begins. A command that
// takes them ends as well, since it is asked to stop.
func TestKafkaAddresses(t *testing.T) {
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for _, command := range testkit.Some([]string{"gate", "expert", "predictor", "scaler", "up"}) {
		for _, address := range []string{"localhost", "localhost:", "localhost:abc", "localhost:99999", "localhost:1,localhost:0"} {
			var out, errOut bytes.Buffer
			code := runUntil(stopped, []string{command, "--kafka", address}, cli.Stdio{In: strings.NewReader(""), Out: &out, Err: &errOut})
			if code != cli.ExitUsage || !strings.Contains(errOut.String(), "--kafka has ") {
				t.Errorf("%s --kafka %s: code %d, %s", command, address, code, errOut.String())
			}
		}
	}
}

// Servers that nobody can connect to are refused before anything begins, by every command,
// and nothing is said of users and passwords.
func TestNATSAddresses(t *testing.T) {
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for _, args := range testkit.Some([][]string{
		{"tokenizer"}, {"attention"}, {"gate"}, {"expert"}, {"aggregator"}, {"predictor", "--kafka", "localhost:1"}, {"scaler", "--kafka", "localhost:1"},
		{"prompt", "hi"}, {"top"}, {"plan", "get"}, {"dlq", "ls"}, {"weights", "ls"},
	}) {
		for url, want := range map[string]string{
			"nats://host:99999":                 "nats://host:99999: its port must be a number from 1 to 65535",
			"nats://host,tls://u:secret@host:0": "tls://xxxxx@host:0: its port must be a number from 1 to 65535",
			"nats://u:secret@":                  "nats://xxxxx@: it names no host; write nats://HOST:PORT",
			":4222":                             ":4222: it names no host",
		} {
			var out, errOut bytes.Buffer
			code := runUntil(stopped, append(args, "--nats", url), cli.Stdio{In: strings.NewReader(""), Out: &out, Err: &errOut})
			if code != cli.ExitUsage || !strings.Contains(errOut.String(), "--nats: reading the NATS URL "+want) || strings.Contains(errOut.String(), "secret") {
				t.Errorf("%s --nats %s: code %d, %s", args, url, code, errOut.String())
			}
		}
	}
}

// A command that JetStream does not answer says what it wanted there.
func TestSilentJetStream(t *testing.T) {
	t.Parallel()
	s := startNATS(t, &server.Options{})
	nc, err := nats.Connect(s.ClientURL(), nats.Timeout(testkit.Patience))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	if _, err := nc.Subscribe("$JS.API.>", func(*nats.Msg) {}); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"brownout get": "opening the bucket of brownouts", "brownout off": "opening the bucket of brownouts", "weights ls": "models of the object store",
		"weights rm m": "removing all of stream OBJ_switchyard_weights_m", "plan get": "opening the bucket of plans", "dlq ls": "looking at stream switchyard_DLQ_demo",
	} {
		got := invoke("", append(strings.Fields(args), "--nats", s.ClientURL(), "--connect-timeout", "200ms")...)
		if got.Code != cli.ExitFailed || !strings.Contains(got.Err, want) {
			t.Errorf("%s: exit %d, %q, want %q", args, got.Code, got.Err, want)
		}
	}
}
