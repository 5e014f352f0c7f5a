// servecommand.go owns the command that runs servers: its flags, and what the roles are told
// by them. It must not know the insides of any server, nor how a command line is read.

package main

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// serverRoles are the servers that there are.
func serverRoles() []string { return []string{"revisor", "lab", "gateway"} }

// serveCommand runs servers.
type serveCommand struct {
	As            []string       `placeholder:"ROLE,…" variable:"REVISOR_AS" help:"Roles to run: revisor, lab, gateway (default revisor)."`
	Demo          bool           `variable:"REVISOR_DEMO" help:"Run all three servers with practice credentials and services, on a throw-away database unless --db names one."`
	DB            string         `name:"db" placeholder:"FILE" variable:"REVISOR_DB" help:"Database file (default ${database}; with --demo a temporary one)."`
	Listen        string         `default:"${revisor_address}" variable:"REVISOR_LISTEN" help:"Address of revisor."`
	LabListen     string         `default:"${lab_address}" variable:"REVISOR_LAB_LISTEN" help:"Address of the lab."`
	GatewayListen string         `default:"${gateway_address}" variable:"REVISOR_GATEWAY_LISTEN" help:"Address of the gateway."`
	Target        string         `placeholder:"URL" variable:"REVISOR_TARGET" help:"Where the gateway forwards to (default the revisor of this process, else http://${revisor_address})."`
	Allow         []string       `placeholder:"DEST,…" variable:"REVISOR_DESTINOS" help:"Private destinations that may be checked: ip:port, [ip6]:port, an address alone, or a CIDR block (default none; with --demo the lab)."`
	KeyTTL        time.Duration  `default:"24h" milliseconds:"REVISOR_VIGENCIA_MS" help:"Lifetime of a key, from its first use."`
	InFlight      string         `default:"reject" enum:"reject,wait" variable:"REVISOR_IN_FLIGHT" help:"What a request meets whose original still runs: reject (409) or wait (10 s)."`
	Fingerprint   string         `default:"ordered" enum:"ordered,canonical" variable:"REVISOR_FINGERPRINT" help:"When two JSON bodies are the same request: ordered (the order of members matters) or canonical (RFC 8785)."`
	SaveDelay     *time.Duration `variable:"REVISOR_SAVE_DELAY" placeholder:"TIME" help:"Pretended work of a registration (default 0s; with --demo 500ms)."`
	QueueDelay    *time.Duration `variable:"REVISOR_QUEUE_DELAY" placeholder:"TIME" help:"Pretended queue before a revision starts (default 0s; with --demo 1s)."`
	Check         bool           `default:"true" negatable:"" variable:"REVISOR_CHECK" help:"Check the integrity of the database before serving (--no-check: start at once with a huge file)."`
	Simulate      bool           `default:"true" negatable:"" variable:"REVISOR_SIMULATE" help:"Let the gateway obey X-Simular."`
	Fault         []string       `sep:"none" placeholder:"SPEC" variable:"REVISOR_FAULT" help:"What the gateway does to whom: POINT[=VALUE][:OPTION][,WHEN], as often as you like. Points: before, after, cut-before-headers, cut-after-headers, cut-after=N (each :close or :reset), delay=TIME[:after], duplicate, status=NNN[:RETRY-AFTER]. When: first (the default), first=K, nth=K, every=K, rate=P."`
	Plan          namedPlan      `placeholder:"FILE" variable:"REVISOR_PLAN" help:"More faults, after those of --fault, as JSON."`
	Seed          *uint64        `placeholder:"N" variable:"REVISOR_SEED" help:"What rate=P is drawn from (default the plan's, else a new one; the log says it)."`
	Ledger        string         `placeholder:"FILE" variable:"REVISOR_LEDGER" help:"Append to this file a line of JSON for each request that ended at the gateway (default none)."`
	GatewayAdmin  string         `placeholder:"ADDRESS" variable:"REVISOR_GATEWAY_ADMIN" help:"Address where ${ledger_path} tells the same (default none)."`
	Break         []string       `placeholder:"DEFECT,…" variable:"REVISOR_BREAK" help:"Deliberate defects, for learning; on loopback only: ${server_defects}."`
	Log           string         `default:"text" enum:"text,json" variable:"REVISOR_LOG" help:"Form of the log on standard error: text or json."`
	labFlags
}

// labFlags are the limits of the lab.
type labFlags struct {
	LabMaxDelay    time.Duration `default:"100s" variable:"REVISOR_LAB_MAX_DELAY" help:"Longest delay of the lab, and the longest that one of its odd answers lasts; its close may take 2s more."`
	LabMaxBytes    int64         `default:"67108864" variable:"REVISOR_LAB_MAX_BYTES" help:"Largest answer of the lab, in bytes, at most 1 PiB; its endless ones end there."`
	LabMaxRequests int           `default:"256" variable:"REVISOR_LAB_MAX_REQUESTS" help:"Most requests that the lab answers at the same time; one more gets 503."`
}

// roleAddress is a role to run and the address it was told to listen on.
type roleAddress struct{ role, address string }

// serveOptions is what the roles are told.
type serveOptions struct {
	revisorSettings
	roles     []roleAddress
	demo      bool
	allowLab  bool     // the lab of this process may be checked
	database  string   // "" for a throw-away file
	check     bool     // the database's integrity, before serving
	target    *url.URL // of the gateway; nil: the revisor of this process
	simulate  bool
	faults    []fault
	seed      *uint64 // nil: to be drawn
	ledger    string  // the file's name; "" for none
	lab       labLimits
	logFormat string
}

// Validate finds what cannot be meant.
func (c *serveCommand) Validate() error {
	_, err := c.options()
	return err
}

// Run runs the roles.
func (c *serveCommand) Run(p *process) error {
	o, err := c.options()
	if err != nil {
		return &usageError{err}
	}
	return p.serve(o)
}

// options reads the flags. The first of them that cannot be meant is the error.
func (c *serveCommand) options() (serveOptions, error) {
	o := serveOptions{
		demo: c.Demo, allowLab: c.Demo && len(c.Allow) == 0, database: c.DB, check: c.Check, simulate: c.Simulate, logFormat: c.Log,
		revisorSettings: revisorSettings{keyTTL: c.KeyTTL, wait: c.InFlight == "wait", scheme: schemeOrdered},
	}
	if c.Fingerprint == schemeName(schemeCanonical) {
		o.scheme = schemeCanonical
	}
	if !c.Demo && o.database == "" {
		o.database = defaultDatabase
	}
	var err error
	if o.roles, err = c.roles(); err != nil {
		return serveOptions{}, err
	}
	if o.target, err = c.target(o.roles); err != nil {
		return serveOptions{}, fmt.Errorf("--target: %w", err)
	}
	if err := c.readFaults(&o); err != nil {
		return serveOptions{}, err
	}
	if o.keyTTL <= 0 {
		return serveOptions{}, errors.New("--key-ttl: a key must live longer than nothing")
	}
	if o.allow, err = parseAllowed(c.Allow); err != nil {
		return serveOptions{}, fmt.Errorf("--allow: %w", err)
	}
	if o.lab, err = c.labFlags.limits(); err != nil {
		return serveOptions{}, err
	}
	if o.broken, err = parseDefects(c.Break, serverDefects); err != nil {
		return serveOptions{}, err
	}
	if err := demandLoopback(o.broken, o.roles); err != nil {
		return serveOptions{}, err
	}
	saveDelay, queueDelay := time.Duration(0), time.Duration(0)
	if c.Demo {
		saveDelay, queueDelay = demoSaveDelay, demoQueueDelay
	}
	if o.saveDelay, err = delay(c.SaveDelay, saveDelay); err != nil {
		return serveOptions{}, fmt.Errorf("--save-delay: %w", err)
	}
	if o.queueDelay, err = delay(c.QueueDelay, queueDelay); err != nil {
		return serveOptions{}, fmt.Errorf("--queue-delay: %w", err)
	}
	return o, nil
}

// roles are those to run, in the order in which they are: all with --demo.
func (c *serveCommand) roles() ([]roleAddress, error) {
	all := []roleAddress{{"revisor", c.Listen}, {"lab", c.LabListen}, {"gateway", c.GatewayListen}}
	asked := c.As
	if len(asked) == 0 {
		asked = []string{"revisor"}
	}
	for _, name := range asked {
		if !slices.Contains(serverRoles(), name) {
			return nil, fmt.Errorf("--as: %q is none of %s", name, strings.Join(serverRoles(), ", "))
		}
	}
	running := slices.DeleteFunc(slices.Clone(all), func(ra roleAddress) bool { return !slices.Contains(asked, ra.role) })
	if c.Demo && len(c.As) > 0 && len(running) < len(all) {
		return nil, errors.New("--demo runs all three roles: leave --as out")
	}
	if c.Demo {
		running = all
	}
	if c.GatewayAdmin != "" {
		running = append(running, roleAddress{gatewayAdmin, c.GatewayAdmin})
	}
	for _, ra := range running {
		if err := validateListen(ra.address); err != nil {
			return nil, fmt.Errorf("address of %s: %w", ra.role, err)
		}
	}
	return running, nil
}

// readFaults reads what the gateway is to do, which must not be asked for in vain.
func (c *serveCommand) readFaults(o *serveOptions) error {
	o.seed, o.ledger = c.Seed, c.Ledger
	for _, spec := range c.Fault {
		f, err := parseFault(spec)
		if err != nil {
			return fmt.Errorf("--fault: %w", err)
		}
		o.faults = append(o.faults, f)
	}
	if c.Plan.Filename != "" {
		faults, seed, err := parsePlan(c.Plan.Contents)
		if err != nil {
			return fmt.Errorf("--plan: %s: %w", c.Plan.Filename, err)
		}
		o.faults = append(o.faults, faults...)
		if o.seed == nil {
			o.seed = seed
		}
	}
	asked := len(o.faults) > 0 || c.Seed != nil || o.ledger != "" || c.GatewayAdmin != ""
	if asked && !slices.ContainsFunc(o.roles, func(ra roleAddress) bool { return ra.role == "gateway" }) {
		return errors.New("--fault, --plan, --seed, --ledger and --gateway-admin are the gateway's: add gateway to --as")
	}
	return nil
}

// validateListen tells whether a server can be told to listen there. An empty address
// would mean every network of the machine; that takes at least a port that was meant.
func validateListen(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%q is not host:port", address)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%q has no port from 0 to 65535", address)
	}
	return nil
}

// isLoopback tells whether only this machine can reach what listens on an address.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// target is where the gateway forwards to; nil when that is the revisor of this process.
func (c *serveCommand) target(roles []roleAddress) (*url.URL, error) {
	if c.Target == "" && slices.ContainsFunc(roles, func(ra roleAddress) bool { return ra.role == "revisor" }) {
		return nil, nil
	}
	u, err := parseBase(cmp.Or(c.Target, "http://"+revisorAddress))
	if err != nil {
		return nil, err
	}
	for _, ra := range roles {
		if ra.role == "gateway" && isSelf(u, ra.address) {
			return nil, fmt.Errorf("the gateway itself listens on %s: name the server behind it", ra.address)
		}
	}
	return u, nil
}

// isSelf tells whether a target is the very address that a server is told to listen on. A
// name other than localhost is not looked up.
func isSelf(target *url.URL, address string) bool {
	host, port, err := net.SplitHostPort(address)
	if err != nil || port == "0" { // which will be another
		return false
	}
	theirs := target.Port()
	if theirs == "" {
		theirs = map[string]string{"http": "80", "https": "443"}[target.Scheme]
	}
	here, there := hostAddress(host), hostAddress(target.Hostname())
	everywhere := here.IsUnspecified() || there.IsUnspecified() // to connect to 0.0.0.0 is to connect to loopback
	return theirs == port && (strings.EqualFold(host, target.Hostname()) || here.IsValid() && here == there ||
		everywhere && (here.IsLoopback() || there.IsLoopback() || here.IsUnspecified() && there.IsUnspecified()))
}

// hostAddress is the address that a host is, if it is written as one; nothing is every one.
func hostAddress(host string) netip.Addr {
	switch strings.ToLower(host) {
	case "":
		return netip.IPv6Unspecified()
	case "localhost":
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	address, _ := netip.ParseAddr(host) // invalid: a name
	return address.Unmap()
}

// limits are those of a lab that can answer something at all.
func (c labFlags) limits() (labLimits, error) {
	switch {
	case c.LabMaxDelay < 0:
		return labLimits{}, errors.New("--lab-max-delay: there is no delay below 0")
	case c.LabMaxBytes < 1, c.LabMaxBytes > labMostBytes:
		return labLimits{}, fmt.Errorf("--lab-max-bytes: the lab must be allowed from 1 to %d bytes", int64(labMostBytes))
	case c.LabMaxRequests < 1:
		return labLimits{}, errors.New("--lab-max-requests: the lab must be allowed a request")
	}
	return labLimits{delay: c.LabMaxDelay, bytes: c.LabMaxBytes, requests: c.LabMaxRequests}, nil
}

// demandLoopback keeps a server that is broken on purpose on this machine.
func demandLoopback(broken defects, roles []roleAddress) error {
	if len(broken) == 0 {
		return nil
	}
	for _, ra := range roles {
		if !isLoopback(ra.address) {
			return fmt.Errorf("--break: only on loopback, and %s would listen on %s", ra.role, ra.address)
		}
	}
	return nil
}

// delay is a pretended delay: it must leave the work some of its time.
func delay(asked *time.Duration, otherwise time.Duration) (time.Duration, error) {
	switch {
	case asked == nil:
		return otherwise, nil
	case *asked < 0 || *asked >= workTime:
		return 0, fmt.Errorf("must be from 0 to less than %v", workTime)
	}
	return *asked, nil
}
