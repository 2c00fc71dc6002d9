package tokenizer

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/switchyard/switchyard/internal/flagvalue"
	"github.com/switchyard/switchyard/schemas"
)

// parseTenants reads what tenants may have, each as NAME:weight=4,waiting=100,tokens=60000,log=1GiB.
func parseTenants(texts []string) (map[string]Quota, error) {
	all := map[string]Quota{}
	for _, text := range texts {
		name, quota, err := parseTenant(text)
		if _, twice := all[name]; twice {
			err = fmt.Errorf("%s is there twice", name)
		}
		if err != nil {
			return nil, fmt.Errorf("--tenant %q: %w; write it as acme:weight=4,waiting=100,tokens=60000,log=1GiB", text, err)
		}
		all[name] = quota
	}
	return all, nil
}

func parseTenant(text string) (name string, q Quota, err error) {
	name, settings, ok := strings.Cut(text, ":")
	if !ok {
		return name, q, fmt.Errorf("it has no ':' behind the name")
	}
	if err := schemas.CheckTenant(name); err != nil && name != EveryoneElse {
		return name, q, err
	}
	for setting := range strings.SplitSeq(settings, ",") {
		key, value, _ := strings.Cut(setting, "=")
		if err := setQuota(&q, key, value); err != nil {
			return name, q, err
		}
	}
	return name, q, nil
}

// setQuota sets one of a tenant's bounds; what is there must be above 0.
func setQuota(q *Quota, key, value string) error {
	bits := 31
	if key == "tokens" {
		bits = 53 // as much as is exact
	}
	n, err := strconv.ParseUint(value, 10, bits)
	switch key {
	case "weight":
		q.Weight = uint32(n) //nolint:gosec // it has 31 bits
	case "waiting":
		q.Waiting = int(n) //nolint:gosec // likewise
	case "tokens":
		q.TokensPerMinute = int64(n) //nolint:gosec // 53
	case "log":
		q.LogBytes, err = flagvalue.Bytes("tenant", value)
		n = uint64(max(0, q.LogBytes)) //nolint:gosec // it is not below 0
	default:
		return fmt.Errorf("%q is none of weight, waiting, tokens and log", key)
	}
	if err != nil || n == 0 {
		return fmt.Errorf("%s is %q; it must be a number above 0", key, value)
	}
	return nil
}
