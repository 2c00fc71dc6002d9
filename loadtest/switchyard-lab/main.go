// Command switchyard-lab measures switchyard: it compares policies, checks checkpoints against other
// engines' outputs, trains predictors, and times pipelines.
//
// A subcommand is a file of its own here: a struct with its flags and a Run
// method, and one field in CLI.
package main

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/switchyard/switchyard/services/switchyard/cli"
)

// CLI is the command line: flags of all commands, and the commands.
type CLI struct {
	cli.Globals `embed:"" group:"Connection, logs and configuration:"`
	ShowVersion cli.VersionFlag `name:"version" env:"-" help:"Print the version and end."`

	Verify         VerifyCmd         `cmd:"" group:"Models:" help:"Compare checkpoints, run through the message pipeline, with the outputs of transformers."`
	Quantise       QuantiseCmd       `cmd:"" group:"Models:" help:"Say what --precision q8 or q4 costs a model's weights: the error of each matrix, and bytes before and after."`
	Upcycle        UpcycleCmd        `cmd:"" group:"Models:" help:"Make a Mixture-of-Experts model of a dense GPT-2, BERT or BERT2BERT model."`
	Maps           MapsCmd           `cmd:"" group:"Measure:" help:"Build expert maps from recordings."`
	Bench          BenchCmd          `cmd:"" group:"Measure:" help:"Measure what messages cost: the pipeline beside the same layers by direct calls."`
	Arena          ArenaCmd          `cmd:"" group:"Measure:" help:"Compare policies, and write a report."`
	Policy         PolicyCmd         `cmd:"" group:"Measure:" help:"Make one scaling or placement decision from a state in JSON, without a server."`
	Record         RecordCmd         `cmd:"" group:"Measure:" help:"Write what a model's gates see and choose on texts, to train predictors and to simulate."`
	SPS            SPSCmd            `cmd:"" group:"Measure:" name:"sps" help:"Build stores of past prompts that foretell experts of similar ones, ask them, and measure what they foretell."`
	Profile        ProfileCmd        `cmd:"" group:"Measure:" help:"Measure what an expert takes with the processors that so much memory of a serverless platform has."`
	Bayes          BayesCmd          `cmd:"" group:"Measure:" help:"Count which experts rows chose, to foretell those of later rows, and measure what that foretells."`
	Tune           TuneCmd           `cmd:"" group:"Measure:" help:"Tune a table of chosen experts by what the deployments that are planned by it cost."`
	Distill        DistillCmd        `cmd:"" group:"Measure:" help:"Make united experts, which stand in for several of a model's experts in a brownout."`
	Rerun          RerunCmd          `cmd:"" group:"Measure:" help:"Compute a logged request again, alone, and say whether its tokens are those of the log."`
	Eval           EvalCmd           `cmd:"" group:"Measure:" help:"Measure what brownouts cost answers, on held-out texts."`
	TrainPredictor TrainPredictorCmd `cmd:"" group:"Measure:" name:"train-predictor" help:"Train predictors of expert loads, and show how right they are."`
}

// program is the command line of this binary.
var program = cli.Program{
	Name: cli.LabProgram,
	About: "Measures what switchyard serves, and what its policies decide.\n\n" +
		"Each flag can also be set as SWITCHYARD_<FLAG>, or in a YAML file named by --config.",
	New: func() (grammar any, globals *cli.Globals, more []any) {
		c := &CLI{}
		return c, &c.Globals, nil
	},
	Rewrite: suiteFirst,
}

func main() {
	signal.Ignore(syscall.SIGPIPE) // as in switchyard
	cli.NameVersion()
	os.Exit(program.Run(os.Args[1:], cli.Stdio{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
}
