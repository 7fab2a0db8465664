package caddymodule

import (
	"errors"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
)

// customDialect is the word in a Caddyfile for a dialect that is given there.
const customDialect = "custom"

// parseDialect parses the name of a dialect, or a table of its own.
func parseDialect(h *Handler, b *block) (err error) {
	if h.Dialect, err = b.one(); err != nil || h.Dialect != customDialect {
		return err
	}
	h.CustomDialect = new(dialect.Custom)
	return parseOptions(h.CustomDialect, b, "dialect", customOptions)
}

var customOptions = func() map[string]option[*dialect.Custom] {
	all := map[string]option[*dialect.Custom]{
		"frames":     {parse: text(func(c *dialect.Custom) *string { return &c.Frames })},
		"type":       {parse: text(func(c *dialect.Custom) *string { return &c.Type })},
		"on":         {parse: parseCustomType, repeatable: true},
		"done":       {parse: list(func(c *dialect.Custom) *[]string { return &c.Done }), repeatable: true},
		"word":       {parse: parseWord, repeatable: true},
		"clean_end":  {parse: bare(func(c *dialect.Custom) *bool { return &c.CleanEnd })},
		"generate":   {parse: list(func(c *dialect.Custom) *[]string { return &c.Generate }), repeatable: true},
		"ids":        {parse: text(func(c *dialect.Custom) *string { return &c.IDs })},
		"filler":     {parse: text(func(c *dialect.Custom) *string { return &c.Filler })},
		"on_failure": {parse: parseCustomFailure},
	}
	for name, o := range customRuleOptions {
		all[name] = option[*dialect.Custom]{parse: func(c *dialect.Custom, b *block) error { return o.parse(&c.CustomRule, b) }}
	}
	return all
}()

// customRuleOptions stand in the table and in each of its on blocks.
var customRuleOptions = map[string]option[*dialect.CustomRule]{
	"text":         {parse: list(func(r *dialect.CustomRule) *[]string { return &r.Text })},
	"reasoning":    {parse: list(func(r *dialect.CustomRule) *[]string { return &r.Reasoning })},
	"id":           {parse: text(func(r *dialect.CustomRule) *string { return &r.ID })},
	"conversation": {parse: text(func(r *dialect.CustomRule) *string { return &r.Conversation })},
	"model":        {parse: text(func(r *dialect.CustomRule) *string { return &r.Model })},
	"usage":        {parse: parseCustomUsage},
	"error":        {parse: list(func(r *dialect.CustomRule) *[]string { return &r.Error })},
	"finish":       {parse: list(func(r *dialect.CustomRule) *[]string { return &r.Finish })},
	"call":         {parse: parseCustomCall},
	"result":       {parse: parseCustomResult},
}

var customTypeOptions = func() map[string]option[*dialect.CustomType] {
	all := map[string]option[*dialect.CustomType]{
		"end":     {parse: bare(func(t *dialect.CustomType) *bool { return &t.End })},
		"means":   {parse: text(func(t *dialect.CustomType) *string { return &t.Means })},
		"waiting": {parse: bare(func(t *dialect.CustomType) *bool { return &t.Waiting })},
		"resumes": {parse: bare(func(t *dialect.CustomType) *bool { return &t.Resumes })},
	}
	for name, o := range customRuleOptions {
		all[name] = option[*dialect.CustomType]{parse: func(t *dialect.CustomType, b *block) error { return o.parse(&t.CustomRule, b) }}
	}
	return all
}()

// parseCustomType parses one on block. It is checked at once, since its options
// stand in other blocks, too.
func parseCustomType(c *dialect.Custom, b *block) error {
	t := dialect.CustomType{Types: b.RemainingArgs()}
	own := &block{Dispenser: b.Dispenser, prefix: b.prefix, at: map[string]caddyfile.Token{"": b.Token()}}
	if err := parseOptions(&t, own, "dialect", customTypeOptions); err != nil {
		return err
	}
	if err := mistakes(t.Check()); err != nil {
		return own.locate(err)
	}
	c.On = append(c.On, t)
	return nil
}

func parseWord(c *dialect.Custom, b *block) error {
	args := b.RemainingArgs()
	if len(args) != 2 {
		return b.Errf("dialect.word takes a word and what it means, found %d arguments", len(args))
	}
	if c.Words == nil {
		c.Words = make(map[string]string)
	}
	c.Words[args[0]] = args[1]
	return nil
}

func parseCustomFailure(c *dialect.Custom, b *block) error {
	args := b.RemainingArgs()
	switch len(args) {
	case 1:
		c.Failure = args[0]
	case 2:
		c.FailureEvent, c.Failure = args[0], args[1]
	default:
		return b.Errf("dialect.on_failure takes the data of a frame, and before it the name of its event if it has one, found %d arguments", len(args))
	}
	return nil
}

func parseCustomUsage(r *dialect.CustomRule, b *block) error {
	args := b.RemainingArgs()
	if len(args) != 2 {
		return b.Errf("%susage takes the paths of the input tokens and of the output tokens, found %d arguments", b.prefix, len(args))
	}
	r.InputTokens, r.OutputTokens = args[0], args[1]
	return nil
}

func parseCustomCall(r *dialect.CustomRule, b *block) error {
	args := b.RemainingArgs()
	if len(args) != 2 && len(args) != 3 {
		return b.Errf("%scall takes the paths of its id and of the tool's name, and of the arguments if they stand there, found %d arguments", b.prefix, len(args))
	}
	r.CallID, r.CallName = args[0], args[1]
	if len(args) == 3 {
		r.CallArguments = args[2]
	}
	return nil
}

func parseCustomResult(r *dialect.CustomRule, b *block) error {
	args := b.RemainingArgs()
	if len(args) != 2 {
		return b.Errf("%sresult takes the paths of the call's id and of the result, found %d arguments", b.prefix, len(args))
	}
	r.CallID, r.Result = args[0], args[1]
	return nil
}

// customNames are the options in a Caddyfile whose fields in JSON are named
// otherwise.
var customNames = map[string]string{
	"words": "word", "failure": "on_failure", "failure_event": "on_failure", "input_tokens": "usage", "output_tokens": "usage",
	"call_id": "call", "call_name": "call", "call_arguments": "call",
}

// mistakes are those of a table as mistakes of options.
func mistakes(found []dialect.Mistake) error {
	var errs []error
	for _, m := range found {
		name := m.Option
		if n, ok := customNames[name]; ok {
			name = n
		}
		errs = append(errs, wrong("dialect."+name, m.Found, m.Allowed))
	}
	return errors.Join(errs...)
}

// checkDialect: a table goes with the word for it, and with no other.
func (h *Handler) checkDialect() error {
	switch {
	case h.Dialect == customDialect && h.CustomDialect == nil:
		return clash("dialect", "found %q without a table, allowed: %s with a block", customDialect, customDialect)
	case h.Dialect == customDialect:
		return mistakes(h.CustomDialect.Check())
	case h.CustomDialect != nil:
		return clash("dialect", "found %q beside a table, allowed: %s", h.Dialect, customDialect)
	}
	allowed := slices.Concat([]string{"auto"}, dialect.Names(), []string{customDialect})
	if h.Dialect != "" && !slices.Contains(allowed, h.Dialect) {
		return wrong("dialect", h.Dialect, strings.Join(allowed, ", "))
	}
	return nil
}
