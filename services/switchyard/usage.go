package main

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/switchyard/switchyard/services/switchyard/cli"
)

// UsageCmd adds up access logs.
type UsageCmd struct {
	Since string   `help:"First day, such as 2027-01-31, in UTC." placeholder:"DAY"`
	Until string   `help:"Last day." placeholder:"DAY"`
	CSV   bool     `name:"csv" xor:"form" help:"Print comma-separated values."`
	JSON  bool     `name:"json" xor:"form" help:"Print a JSON object a line."`
	Files []string `arg:"" name:"log" help:"Access logs of gateways, those that were rotated too, also as .gz; - is stdin."`
}

// UnusedFlags returns those of every command that need a server.
func (UsageCmd) UnusedFlags() []string { return KeysFile{}.UnusedFlags() }

const (
	// maxUsageRows bounds what is kept of logs, however many tenants these name, and maxAccessLine what is read of a line.
	maxUsageRows, maxAccessLine = 200_000, 64 << 10
)

// usageOf names a row: what is added up for a tenant and a model in a day.
type usageOf struct {
	Day    string `json:"day"`
	Tenant string `json:"tenant"`
	Model  string `json:"model"`
}

// usageRow is a row's sums.
type usageRow struct {
	usageOf
	Requests   int64 `json:"requests"`
	Failed     int64 `json:"failed"`
	Prompt     int64 `json:"prompt_tokens"`
	Cached     int64 `json:"cached_tokens"`
	Completion int64 `json:"completion_tokens"`
}

// usageColumns are a row's, as CSV names them.
var usageColumns = []string{"day", "tenant", "model", "requests", "failed", "prompt_tokens", "cached_tokens", "completion_tokens"}

func (r *usageRow) cells() []string {
	cells := []string{r.Day, r.Tenant, r.Model}
	for _, n := range []int64{r.Requests, r.Failed, r.Prompt, r.Cached, r.Completion} {
		cells = append(cells, strconv.FormatInt(n, 10))
	}
	return cells
}

// accessed is what a line of an access log says of a request.
type accessed struct {
	Time       time.Time `json:"time"`
	Tenant     string    `json:"tenant"`
	Model      string    `json:"model"`
	Status     int       `json:"status"`
	Code       string    `json:"code"`
	Prompt     int64     `json:"prompt_tokens"`
	Cached     int64     `json:"cached_tokens"`
	Completion int64     `json:"completion_tokens"`
}

// usage is what logs add up to.
type usage struct {
	since, until string // days; empty: all
	rows         map[usageOf]*usageRow
	unread       int // lines that are none
}

// Run prints the sums.
func (c *UsageCmd) Run(e *cli.Env) error {
	u := usage{since: c.Since, until: c.Until, rows: map[usageOf]*usageRow{}}
	for flag, day := range map[string]string{"--since": c.Since, "--until": c.Until} {
		if _, err := time.Parse(time.DateOnly, day); day != "" && err != nil {
			return cli.Usage(fmt.Errorf("%s is %q; it must be a day such as 2027-01-31", flag, day))
		}
	}
	for _, file := range c.Files {
		if err := u.file(e.In, file); err != nil {
			return err
		}
	}
	if u.unread > 0 {
		e.Say(fmt.Sprintf("%d lines are no requests of an access log, and are not counted\n", u.unread), "lines that are no requests are not counted", "lines", u.unread)
	}
	return c.print(e.Out, slices.SortedFunc(maps.Values(u.rows), func(a, b *usageRow) int {
		return cmp.Or(cmp.Compare(a.Day, b.Day), cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Model, b.Model))
	}))
}

// file adds up a log.
func (u *usage) file(stdin io.Reader, name string) (err error) {
	in := stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return cli.Usage(fmt.Errorf("opening an access log: %w", err))
		}
		defer func() { _ = file.Close() }() // it was read
		in = file
	}
	if strings.HasSuffix(name, ".gz") {
		if in, err = gzip.NewReader(in); err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
	}
	if err := u.read(in); err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	return nil
}

// read adds up lines. Of one that is too long, or is written just now, nothing is known.
func (u *usage) read(in io.Reader) error {
	lines := bufio.NewReaderSize(in, maxAccessLine)
	for long := false; ; {
		line, err := lines.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			long = true
			continue
		case err != nil && !errors.Is(err, io.EOF):
			return err //nolint:wrapcheck // the caller names the file
		}
		if line = bytes.TrimSpace(line); long || len(line) > 0 {
			if e := u.add(line, long); e != nil {
				return e
			}
		}
		if long = false; err != nil {
			return nil
		}
	}
}

func (u *usage) add(line []byte, long bool) error {
	var a accessed
	if long || json.Unmarshal(line, &a) != nil || a.Time.IsZero() || min(a.Prompt, a.Cached, a.Completion) < 0 {
		u.unread++
		return nil
	}
	of := usageOf{Day: a.Time.UTC().Format(time.DateOnly), Tenant: plain(a.Tenant), Model: plain(a.Model)}
	if u.since != "" && of.Day < u.since || u.until != "" && of.Day > u.until {
		return nil
	}
	row := u.rows[of]
	if row == nil {
		if len(u.rows) == maxUsageRows {
			return fmt.Errorf("more than %d days, tenants and models: ask for fewer days (--since, --until)", maxUsageRows)
		}
		row = &usageRow{usageOf: of}
		u.rows[of] = row
	}
	row.Requests++
	if a.Status >= 400 || a.Code != "" {
		row.Failed++
	}
	row.Prompt, row.Cached, row.Completion = row.Prompt+a.Prompt, row.Cached+a.Cached, row.Completion+a.Completion
	return nil
}

// plain is a name as a terminal and a spreadsheet may have it; "-": there is none.
func plain(name string) string {
	name = strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r == '.' || r == ':' || r == '/' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return '_'
	}, name)
	return cmp.Or(strings.TrimLeft(name, "-"), "-")
}

func (c *UsageCmd) print(out io.Writer, rows []*usageRow) error {
	switch {
	case c.CSV:
		w := csv.NewWriter(out)
		_ = w.Write(usageColumns) // Error tells of it
		for _, r := range rows {
			_ = w.Write(r.cells()) // as above
		}
		w.Flush()
		return w.Error()
	case c.JSON:
		for _, r := range rows {
			if err := json.NewEncoder(out).Encode(r); err != nil {
				return err
			}
		}
		return nil
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "DAY\tTENANT\tMODEL\tREQUESTS\tFAILED\tPROMPT\tCACHED\tCOMPLETION") // Flush tells errors
	for _, r := range rows {
		_, _ = fmt.Fprintln(table, strings.Join(r.cells(), "\t")) // as above
	}
	return table.Flush()
}
