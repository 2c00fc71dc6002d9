// Package cli is the command line that switchyard and switchyard-lab share: flags of all commands,
// configuration files, the connection to NATS, results, errors and exit codes.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
	_ "github.com/switchyard/switchyard/pkg/policy/policies" // registers them
	"github.com/switchyard/switchyard/pkg/policy/predict/bayes"
	"github.com/switchyard/switchyard/pkg/policy/registry"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/serverless/rented"
	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/tokenizer"
)

// Globals are the flags that every command has.
type Globals struct {
	Config      string  `help:"YAML file with flags' values; a command's flags stand under its name." placeholder:"FILE"`
	NATS        string  `name:"nats" default:"${nats}" help:"NATS URL, or the name of a NATS context." placeholder:"URL"`
	Creds       string  `help:"NATS credentials file." placeholder:"FILE"`
	TLSCA       string  `name:"tls-ca" help:"PEM file with the authority that signed the server's certificate." placeholder:"FILE"`
	TLSCert     string  `name:"tls-cert" help:"PEM file with the client's certificate." placeholder:"FILE"`
	TLSKey      string  `name:"tls-key" help:"PEM file with the client's key." placeholder:"FILE"`
	Insecure    bool    `help:"Allow plain nats:// off the loopback."`
	Prefix      string  `default:"${prefix}" help:"First token of every subject." placeholder:"NAME" advanced:""`
	JSDomain    string  `name:"js-domain" help:"JetStream domain of the servers that store, where --nats is a leaf node of theirs." placeholder:"NAME" advanced:""`
	JSAPIPrefix string  `name:"js-api-prefix" help:"What the subjects of JetStream's API begin with, such as JS.hub.API, where an account imports them under another name." placeholder:"SUBJECT" advanced:""`
	LogLevel    string  `default:"info" enum:"debug,info,warn,error" help:"Least level logged: debug, info, warn or error." placeholder:"LEVEL"`
	LogFormat   string  `default:"text" enum:"text,json" help:"Form of log lines on stderr: text or json." placeholder:"FORMAT"`
	HelpAll     helpAll `env:"-" help:"Print help with all flags, those that few need, too."`
}

// Stdio is where a command reads and writes: data to Out, the rest to Err.
type Stdio struct {
	In       io.Reader
	Out, Err io.Writer
}

// Env is what a command gets beside its own flags.
type Env struct {
	Globals
	Stdio
	Log   *slog.Logger
	Waits Waits
	// Told is the profile that people were told of; empty: of none.
	Told string

	// level is the log's, said what the command line and the configuration said at first, and parse reads them
	// again from the file at path.
	level *slog.LevelVar
	path  string
	said  configured
	parse func() (configured, error)
}

// Program is a command line: its name, what it is for, and its commands.
type Program struct {
	Name, About string
	// New returns an empty grammar as kong reads it, with commands and Globals, and the structs with
	// more commands that it embeds.
	New func() (grammar any, globals *Globals, more []any)
	// Rewrite, where there is one, returns the arguments that are parsed in place of others; configured is what
	// the configuration has for a key.
	Rewrite func(args []string, configured func(key string) string) ([]string, error)
}

// Run runs the command line and returns the exit code.
func (p Program) Run(args []string, std Stdio) (code int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second signal kills: the first one asked nicely.
	defer context.AfterFunc(ctx, stop)()
	if len(args) == 0 && logFormat(args) == jsonFormat {
		return report(std.Err, jsonFormat, Usage(fmt.Errorf("no command is given; %s --help lists them", p.Name)))
	}
	if len(args) == 0 { // nothing was asked for: that is no success
		p.RunUntil(ctx, []string{"--help"}, Stdio{In: std.In, Out: std.Err, Err: std.Err})
		return ExitUsage
	}
	return p.RunUntil(ctx, args, std)
}

// RunUntil runs the command line; the end of ctx is what a signal is.
func (p Program) RunUntil(ctx context.Context, args []string, std Stdio) (code int) {
	return p.RunWaiting(ctx, args, std, Waits{})
}

// RunWaiting runs the command line with bounds of its own for what it waits for.
func (p Program) RunWaiting(ctx context.Context, args []string, std Stdio, w Waits) (code int) {
	format := logFormat(args)
	defer exitByPanic(std.Err, format, &code)
	if err := cpu.Check(); err != nil {
		return report(std.Err, format, Usage(err))
	}
	if err := checkUTF8(args); err != nil {
		return report(std.Err, format, Usage(err))
	}
	parsed, globals, err := p.Parse(args, std)
	if err == nil {
		e := &Env{Globals: *globals, Stdio: std, Waits: w, level: globals.level(), path: configPath(args), said: configuredBy(parsed, globals)}
		e.Log = globals.loggerAt(std.Err, e.level)
		e.parse = func() (configured, error) {
			again, now, err := p.Parse(args, std)
			if err != nil {
				return configured{}, err
			}
			return configuredBy(again, now), nil
		}
		if std.Err == os.Stderr {
			telemetry.LogLibraries(e.Log)
		}
		if stray := strayVariables(parsed.Model); len(stray) > 0 && p.Name == Product { // the laboratory reads but some of them
			e.Log.Warn("variables are set that nothing reads", "names", strings.Join(stray, ", "))
		}
		parsed.BindTo(ctx, (*context.Context)(nil))
		if err = PinKernels(parsed); err == nil {
			err = afterSignal(ctx, parsed.Run(e))
		}
	}
	return report(std.Err, format, err)
}

// checkUTF8 refuses arguments that are not: the parser would change them in silence.
func checkUTF8(args []string) error {
	for i, arg := range args {
		if at := FirstInvalid(arg); at >= 0 {
			return fmt.Errorf("argument %d (%q) is not UTF-8: byte %d is invalid", i+1, arg, at)
		}
	}
	return nil
}

// FirstInvalid returns the index of the first byte that is not UTF-8, or -1.
func FirstInvalid(text string) int {
	for i, r := range text {
		if r == utf8.RuneError && !strings.HasPrefix(text[i:], string(utf8.RuneError)) {
			return i
		}
	}
	return -1
}

// Parse reads flags, then SWITCHYARD_* variables, then the configuration file, then defaults.
func (p Program) Parse(args []string, std Stdio) (*kong.Context, *Globals, error) {
	options := []kong.Option{
		kong.Name(p.Name),
		kong.Description(p.About),
		kong.Writers(std.Out, std.Err),
		kong.Exit(func(code int) { panic(exitNow(code)) }),
		kong.DefaultEnvars("SWITCHYARD"),
		kong.ConfigureHelp(helpOptions),
		kong.Help(printUsualHelp),
		kong.ValueFormatter(helpWithDefault),
	}
	file, err := loadConfig(configPath(args))
	if err != nil {
		return nil, nil, Usage(err)
	}
	if p.Rewrite != nil {
		if args, err = p.Rewrite(args, file.text); err != nil {
			return nil, nil, Usage(err)
		}
	}
	grammar, globals, more := p.New()
	if file != nil {
		file.others = p.otherCommands()
		options = append(options, kong.Resolvers(file))
	} else if len(args) > 0 && len(strayVariables(&kong.Application{Node: &kong.Node{}})) == 0 {
		options = append(options, OnlyCommand(args[0], append([]any{grammar}, more...))...)
	}
	parser, err := NewParser(grammar, options...)
	if err != nil {
		return nil, nil, fmt.Errorf("building the command line: %w", err)
	}
	parsed, err := parser.Parse(args)
	if err != nil {
		return nil, nil, Usage(withHelp(p.Name, err))
	}
	return parsed, globals, Wrongly(checkModelName(parsed.Flags()))
}

// checkModelName refuses the name of a model that no server takes as part of a subject.
func checkModelName(flags []*kong.Flag) error {
	for _, f := range flags {
		if f.Name != "model" || f.PlaceHolder != "NAME" {
			continue
		}
		if n := f.Target.Len(); n > schemas.MaxModelToken {
			return fmt.Errorf("--model has %d bytes; a model's name has at most %d", n, schemas.MaxModelToken)
		}
	}
	return nil
}

// OnlyCommand returns the options that leave all commands but the named one out of the parser: to build them all takes
// longer than most commands run. A configuration, variables for flags, and a name that is no
// command's need all.
func OnlyCommand(name string, grammars []any) []kong.Option {
	var others []string
	found := false
	for _, grammar := range grammars {
		for field := range reflect.ValueOf(grammar).Elem().Fields() {
			if _, is := field.Tag.Lookup("cmd"); !is {
				continue
			}
			if cmp.Or(field.Tag.Get("name"), strings.ToLower(field.Name)) == name {
				found = true
			} else {
				others = append(others, field.Name)
			}
		}
	}
	if !found {
		return nil
	}
	return []kong.Option{kong.IgnoreFields(`^` + reflect.TypeOf(grammars[0]).Elem().Name() + `\.(` + strings.Join(others, "|") + `)$`)}
}

// NewParser returns a parser with the constants filled in. Most of the time of kong.New goes into the
// search for variables in each flag's texts, which have none then: it gets them afterwards.
func NewParser(grammar any, options ...kong.Option) (*kong.Kong, error) {
	var back []func()
	aside := kong.PostBuild(func(k *kong.Kong) error {
		return kong.Visit(k.Model.Node, func(node kong.Visitable, next kong.Next) error {
			if v, is := node.(*kong.Value); is {
				of, enum, help := v.Default, v.Enum, v.Help
				back = append(back, func() { v.Default, v.Enum, v.Help = of, enum, help })
				v.Default, v.Enum, v.Help = "", "", ""
			}
			return next(nil)
		})
	})
	k, err := kong.New(grammar, append(options, constants(), aside)...)
	for _, restore := range slices.Backward(back) { // commands may share a flag
		restore()
	}
	return k, err
}

// withHelp adds to the parser's error where to read what there is, where it does not say so.
func withHelp(program string, err error) error {
	var wrong *kong.ParseError
	if !errors.As(err, &wrong) || wrong.Context == nil || strings.HasPrefix(err.Error(), "--") {
		return err
	}
	command := program
	for _, p := range wrong.Context.Path {
		if p.Command != nil {
			command = p.Command.FullPath()
		}
	}
	return fmt.Errorf("%w; %s --help lists what there is", err, command)
}

// DefaultNATS is where a server of this machine listens, that of up as well.
const DefaultNATS = "nats://127.0.0.1:4222"

// constants returns the defaults of flags that are constants elsewhere, and the names of policies. They
// are no kong.Vars: kong expands each of these anew for every flag that there is.
func constants() kong.Option {
	list := func(use registry.Use) string { return strings.Join(registry.Names(use), ", ") }
	named := strings.NewReplacer(
		"${nats}", DefaultNATS, "${prefix}", schemas.DefaultPrefix, "${max_queued}", strconv.Itoa(tokenizer.DefaultMaxQueued),
		"${platforms}", strings.Join(profiles.PlatformNames(), ", "), "${rented_shapes}", strings.Join(rented.Names(), ", "), "${live_policies}", list(registry.Live), "${simulated_policies}", list(registry.Simulated), "${host_policies}", list(registry.Hosts),
		"${scaling_policies}", list(registry.Scaling), "${placing_policies}", list(registry.Placing),
		"${foretelling}", strings.Join(bayes.MethodNames(), ", "), "${default_policy}", registry.Default, "${tenant}", schemas.DefaultTenant,
	)
	return kong.PostBuild(func(k *kong.Kong) error {
		return kong.Visit(k.Model.Node, func(node kong.Visitable, next kong.Next) error {
			if v, is := node.(*kong.Value); is {
				v.Default, v.Help = named.Replace(v.Default), named.Replace(v.Help)
			}
			return next(nil)
		})
	})
}

// helpWithDefault adds what kong leaves out beside a placeholder: the default,
// and the variable that sets the flag.
func helpWithDefault(v *kong.Value) string {
	var more []string
	if v.HasDefault && v.Default != "" {
		more = append(more, "default "+v.Default)
	}
	if v.Flag != nil {
		for _, name := range v.Flag.Envs {
			more = append(more, "$"+name)
		}
	}
	text := strings.TrimSuffix(v.Help, ".")
	if len(more) > 0 {
		text += " (" + strings.Join(more, ", ") + ")"
	}
	return text + "."
}

// helpOptions are those of all help.
var helpOptions = kong.HelpOptions{Compact: true, FlagsLast: true, NoExpandSubcommands: true, ValueFormatter: helpWithDefault}

// helpAll is --help-all: help with the flags that few need, too.
type helpAll bool

// BeforeReset prints the help in place of what else was asked for.
func (helpAll) BeforeReset(ctx *kong.Context) error {
	if err := printHelp(helpOptions, ctx, func(*kong.Flag) bool { return true }); err != nil {
		return err
	}
	ctx.Exit(ExitDone)
	return nil
}

// printUsualHelp prints help with the flags that an operator sets: those without the tag "advanced", and
// without those of Globals that the command does not use.
func printUsualHelp(options kong.HelpOptions, ctx *kong.Context) error {
	left := 0
	err := printHelp(options, ctx, func(f *kong.Flag) bool {
		usual := !f.Tag.Has("advanced") && !unused(ctx, f.Name)
		if !usual && !f.Hidden {
			left++
		}
		return usual
	})
	if err != nil || left == 0 {
		return err
	}
	_, err = fmt.Fprintf(ctx.Stdout, "\n%d more flags: %s --help-all\n", left, ctx.Selected().FullPath())
	return err
}

// unused reports whether the selected command says that it has no use for a flag of Globals.
func unused(ctx *kong.Context, flag string) bool {
	of := ctx.Selected()
	if of == nil || !of.Target.CanAddr() {
		return false
	}
	command, ok := of.Target.Addr().Interface().(interface{ UnusedFlags() []string })
	return ok && slices.Contains(command.UnusedFlags(), flag)
}

// printHelp prints help with the flags that are wanted, those that every command has behind the command's own.
func printHelp(options kong.HelpOptions, ctx *kong.Context, wanted func(*kong.Flag) bool) error {
	root, of := ctx.Model.Node, ctx.Selected()
	if of == nil {
		return kong.DefaultHelpPrinter(options, ctx)
	}
	shared, own := root.Flags, of.Flags
	defer func() { root.Flags, of.Flags = shared, own }()
	root.Flags, of.Flags = nil, nil
	for _, f := range slices.Concat(own, shared) {
		if wanted(f) {
			of.Flags = append(of.Flags, f)
		}
	}
	return kong.DefaultHelpPrinter(options, ctx)
}

// exitNow is how kong's --help ends a run without ending the process.
type exitNow int

// readable writes durations in JSON as in text, such as 1.5s: a number would not say of what.
func readable(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// Logger returns what logs to w as the flags say.
func (g Globals) Logger(w io.Writer) *slog.Logger { return g.loggerAt(w, g.level()) }

// level returns the least one that is logged.
func (g Globals) level() *slog.LevelVar {
	var level slog.Level
	if err := level.UnmarshalText([]byte(g.LogLevel)); err != nil {
		level = slog.LevelInfo // the parser lets only levels through
	}
	of := new(slog.LevelVar)
	of.Set(level)
	return of
}

func (g Globals) loggerAt(w io.Writer, level slog.Leveler) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if g.LogFormat == jsonFormat {
		options.ReplaceAttr = readable
		return slog.New(telemetry.LimitLog(slog.NewJSONHandler(w, options)))
	}
	return slog.New(telemetry.LimitLog(slog.NewTextHandler(w, options)))
}

// FillDefaults sets a command's flags to their defaults, for commands that run
// another one.
func FillDefaults(cmd any) error {
	parser, err := NewParser(cmd, kong.Name("defaults"), kong.Exit(func(int) {}))
	if err == nil {
		_, err = parser.Parse(nil)
	}
	if err != nil {
		return fmt.Errorf("reading a command's defaults: %w", err)
	}
	return nil
}

// Changed returns the name of the first of a struct's flags that is not at its default, or "". The second
// struct is an empty one of the same kind.
func Changed(flags, empty any) (string, error) {
	if err := FillDefaults(empty); err != nil {
		return "", err
	}
	have, err := flagsOf(flags)
	if err != nil {
		return "", err
	}
	defaults, err := flagsOf(empty)
	if err != nil {
		return "", err
	}
	for i, f := range have {
		if !reflect.DeepEqual(f.Target.Interface(), defaults[i].Target.Interface()) {
			return f.Name, nil
		}
	}
	return "", nil
}

// flagsOf returns the flags of a command's struct.
func flagsOf(cmd any) ([]*kong.Flag, error) {
	parser, err := NewParser(cmd, kong.NoDefaultHelp())
	if err != nil {
		return nil, fmt.Errorf("reading a command's flags: %w", err)
	}
	return parser.Model.Flags, nil
}

// Validate refuses a prefix and URLs that nothing can be reached by; the parser calls it.
func (g Globals) Validate() error {
	if g.Prefix == "" || schemas.ModelToken(g.Prefix) != g.Prefix {
		return fmt.Errorf("--prefix is %q; it must be one subject token of letters, digits, '_' and '-'", g.Prefix)
	}
	if len(g.Prefix) > schemas.MaxPrefix {
		return fmt.Errorf("--prefix has %d bytes; it may have at most %d", len(g.Prefix), schemas.MaxPrefix)
	}
	if err := g.BusConfig().CheckURL(); err != nil {
		return fmt.Errorf("--nats: %w", err)
	}
	return nil
}

// Quiet keeps the services of a command that is none itself from logging what
// operators alone want to know.
func (e *Env) Quiet() {
	if e.LogLevel == "info" {
		e.LogLevel = "warn"
		e.Log = e.Logger(e.Err)
	}
}
