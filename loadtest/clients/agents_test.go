package clients

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// callTurns are the turns of each agent in which a tool is called.
const callTurns = 3

// agent is a program that works through tools, run without a terminal.
type agent struct {
	name, variable string
	tool, command  string // its shell, and the argument that has the command
	turns          int
	// args are its arguments for a question, and files what stands in its home.
	args  func(question string) []string
	env   func(url string) []string
	files func(url, model string) map[string]string
}

var agents = []agent{
	{
		name: "claude", variable: "SWITCHYARD_CLAUDE", tool: "Bash", command: "command", turns: callTurns,
		args: func(q string) []string { return []string{"-p", q, "--model", model(), "--allowedTools", "Bash"} },
		env: func(url string) []string {
			return []string{"ANTHROPIC_BASE_URL=" + url, "ANTHROPIC_API_KEY=dummy", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1"}
		},
	},
	{
		name: "codex", variable: "SWITCHYARD_CODEX", tool: "exec_command", command: "cmd", turns: callTurns,
		args: func(q string) []string {
			return []string{"exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", q}
		},
		env: func(string) []string { return []string{"HERE_KEY=dummy"} },
		files: func(url, model string) map[string]string {
			return map[string]string{".codex/config.toml": fmt.Sprintf("model = %q\nmodel_provider = \"here\"\n[model_providers.here]\nname = \"here\"\nbase_url = %q\nenv_key = \"HERE_KEY\"\nwire_api = \"responses\"\n", model, url+"/v1")}
		},
	},
	{
		name: "opencode", variable: "SWITCHYARD_OPENCODE", tool: "bash", command: "command", turns: callTurns,
		args: func(q string) []string { return []string{"run", q} },
		env:  func(string) []string { return []string{"OPENCODE_DISABLE_MODELS_FETCH=1"} },
		files: func(url, model string) map[string]string {
			return map[string]string{".config/opencode/opencode.json": fmt.Sprintf(`{"autoupdate":false,"share":"disabled","model":"here/%[1]s","small_model":"here/%[1]s","permission":{"bash":"allow"},
				"provider":{"here":{"npm":"@ai-sdk/openai-compatible","name":"here","options":{"baseURL":"%[2]s/v1","apiKey":"dummy"},"models":{"%[1]s":{"name":"%[1]s","limit":{"context":32768,"output":256}}}}}}`, model, url)}
		},
	},
	{
		name: "continue", variable: "SWITCHYARD_CONTINUE", tool: "Bash", command: "command", turns: callTurns,
		args: func(q string) []string { return []string{"--auto", "--config", ".continue/config.yaml", "-p", q} },
		env:  func(string) []string { return []string{"CONTINUE_TELEMETRY_ENABLED=0"} },
		files: func(url, model string) map[string]string {
			return map[string]string{".continue/config.yaml": fmt.Sprintf("name: here\nversion: 1.0.0\nschema: v1\nmodels:\n  - name: %[1]s\n    provider: openai\n    model: %[1]s\n    apiBase: %[2]s/v1\n    apiKey: dummy\n    capabilities: [tool_use]\n    roles: [chat]\n", model, url)}
		},
	},
	{
		name: "qwen", variable: "SWITCHYARD_QWEN", tool: "run_shell_command", command: "command", turns: callTurns,
		args: func(q string) []string { return []string{"--auth-type", "openai", "--yolo", "-p", q} },
		env: func(url string) []string {
			return []string{"OPENAI_BASE_URL=" + url + "/v1", "OPENAI_API_KEY=dummy", "OPENAI_MODEL=" + model()}
		},
	},
	{
		name: "pi", variable: "SWITCHYARD_PI", tool: "bash", command: "command", turns: callTurns,
		args: func(q string) []string {
			return []string{"--provider", "here", "--model", model(), "--thinking", "low", "-p", q}
		},
		env: func(string) []string { return nil },
		files: func(url, model string) map[string]string {
			return map[string]string{".pi/agent/models.json": fmt.Sprintf(`{"providers":{"here":{"baseUrl":"%[2]s/v1","api":"openai-completions","apiKey":"dummy","models":[{"id":"%[1]s","name":"%[1]s","reasoning":true,
				"input":["text"],"contextWindow":32768,"maxTokens":256,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0}}]}}}`, model, url)}
		},
	},
	{
		name: "aider", variable: "SWITCHYARD_AIDER", // has no tools
		args: func(q string) []string {
			return []string{"--model", "openai/" + model(), "--message", q, "--yes-always", "--no-git", "--no-check-update", "--analytics-disable", "--no-show-model-warnings"}
		},
		env: func(url string) []string {
			return []string{"OPENAI_API_BASE=" + url + "/v1", "OPENAI_API_KEY=dummy", "LITELLM_LOCAL_MODEL_COST_MAP=True"}
		},
	},
}

// TestAgents runs those agents that are named, unchanged, in an empty home: several turns in which
// a call of a tool is forced by its grammar, and an end. The model's context has to hold what they
// send (make agents-test). SWITCHYARD_CLAUDE and its like are programs, several with colons between.
func TestAgents(t *testing.T) {
	gateway := os.Getenv("SWITCHYARD_HTTP")
	if gateway == "" {
		t.Skip("SWITCHYARD_HTTP is not set: it is the URL of a running gateway whose model has a context of 16,384 tokens or more")
	}
	for _, a := range agents {
		for i, program := range filepath.SplitList(strings.Trim(os.Getenv(a.variable), ":")) {
			t.Run(fmt.Sprintf("%s-%d", a.name, i+1), func(t *testing.T) { a.test(t, gateway, program) })
		}
	}
}

// agentWithin is how long an agent may take: on a slow machine it waits for its prompts.
const agentWithin = 8 * time.Minute

func (a agent) test(t *testing.T, gateway, program string) {
	program, err := filepath.Abs(program)
	if err != nil {
		t.Fatal(err)
	}
	f, url := force(t, gateway, a.tool, a.command, a.turns)
	home := t.TempDir()
	if a.files != nil {
		for name, text := range a.files(url, model()) {
			path := filepath.Join(home, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	env := append([]string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "TERM=dumb"}, a.env(url)...)
	c := exec.CommandContext(t.Context(), program, a.args("Say that you are done.")...)
	c.Env, c.Dir, c.WaitDelay = env, home, time.Second
	kill := time.AfterFunc(agentWithin, func() { _ = c.Process.Kill() }) // it may have ended
	defer kill.Stop()
	out, err := c.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v", program, err)
	}
	f.check(string(out))
	version := exec.CommandContext(t.Context(), program, "--version")
	version.Env, version.Dir = env, home
	named, err := version.CombinedOutput()
	if err != nil {
		t.Errorf("%s has no version: %v", program, err)
	}
	t.Logf("%s: %d requests", strings.TrimSpace(string(named)), f.bodies)
}
