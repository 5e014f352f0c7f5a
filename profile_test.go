// profile_test.go reads profiles: each mistake is told with where it stands, and what is
// counted, filled in and expected is what the file says.

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestProfileMistakes: who writes a profile is told what is wrong, where, in one line.
func TestProfileMistakes(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, old, new, want string }{
		{"no JSON", `"base": "http://127.0.0.1:1",`, `"base": http`, "base: no good JSON at line 2, column 11:"},
		{"twice", `"base": `, `"base": "http://x", "base": `, "base: no good JSON at line 2, column 2"},
		{"more behind", "\n}", "\n} {}", "there is something behind the JSON value"},
		{"deep", `"body": {"reference"`, `"body": ` + strings.Repeat(`{"a":`, 3000) + `}`, "create.body.a.a.a."},
		{"a number in quotes", `"status": [200],`, `"status": ["201"],`, "create.status[0]: want a number, without quotes: 201"},
		{"a length in quotes", `"longest": 64`, `"longest": "64"`, "key.longest: want a whole number from 1 to 8192, without quotes"},
		{"short keys", `"longest": 64`, `"longest": 15`, "key.longest: verify draws its keys at random, and needs room for 16 characters"},
		{"no scheme", `http://127.0.0.1:1`, `127.0.0.1:18090`, "base: a server's address begins with http:// or https://: write http://127.0.0.1:18090"},
		{"a name without scheme", `http://127.0.0.1:1`, `localhost:18090`, "base: a server's address begins with http:// or https://: write http://localhost:18090"},
		{"IPv6 without scheme", `http://127.0.0.1:1`, `[::1]:18090`, "base: a server's address begins with http:// or https://: write http://[::1]:18090"},
		{"no body", `"body": {"reference": "{{unique}}", "amount": 1, "note": "{{unique}} of verify"},`, ``, "create.path: has no {{unique}}"},
		{"no body, and the path has it", `"path": "/v2/orders", "headers": {"X-Region": "eu"},
    "body": {"reference": "{{unique}}", "amount": 1, "note": "{{unique}} of verify"},`, `"path": "/v2/orders/{{unique}}",`, ""},
		{"nobody asks", `"credentials": [{"header": "Api-Key", "value": "${NORTH}"}, {"header": "Api-Key", "value": "south"}]`, `"credentials": []`, "credentials: want one or two"},
		{"a method that creates nothing", `"path": "/v2/orders", "headers"`, `"method": "GET", "path": "/v2/orders", "headers"`, "create.method: want a method that creates: POST, PUT, PATCH"},
		{"another that creates nothing", `"slow": {`, `"slow": {"method": "HEAD", `, "slow.method: want a method that creates"},
		{"a variant that is none", `"slow": {"path": "/v2/orders?slow=1"}`, `"slow": {}`, "slow: differs from create in nothing"},
		{"unknown", `"slow":`, `"slo":`, "slo: there is no such member"},
		{"unknown inside", `"longest": 64`, `"longst": 64`, "key.longst: there is no such member"},
		{"a marked name is none", `"slow":`, `"!base":`, "!base: there is no such member"},
		{"a name with a dot", `"longest": 64`, `"key.longest": 64`, "key.key.longest: there is no such member"},
		{"missing", `"base": "http://127.0.0.1:1",`, ``, "base: is missing"},
		{"missing inside", `"failure": "recorded"`, `"status": 422`, "invalid.status: no good JSON"},
		{"no object", `"key": {"spelling": "quoted", "longest": 64}`, `"key": 3`, "key: want an object"},
		{"no array", `"id": "/order/order_id"`, `"id": 7`, "create.id: want a string"},
		{"base with a path", `http://127.0.0.1:1`, `http://127.0.0.1:1/v2`, "base: a server's address ends with the host and port"},
		{"no place in the body", `"body": {"reference": "{{unique}}", "amount": 1, "note": "{{unique}} of verify"}`, `"body": {}`, "create.body: has no {{unique}}"},
		{"unknown place", `{{unique}} of verify`, `{{uniqe}}`, "create.body: {{uniqe}} is none of {{unique}}"},
		{"a place that is not there yet", `/v2/orders?slow=1`, `/v2/orders/{{id}}`, "slow.path: {{id}} is none of {{unique}}"},
		{"no path", `"/v2/orders?slow=1"`, `"v2/orders"`, `slow.path: "v2/orders" is no path`},
		{"a field of ours", `"X-Region"`, `"idempotency-key"`, "create.headers.idempotency-key: verify sends this field itself"},
		{"no field name", `"X-Region"`, `"X Region"`, `create.headers.X Region: "X Region" is no name of a header field`},
		{"a line end in a field", `"eu"`, `"e\nu"`, "create.headers.X-Region: only visible ASCII"},
		{"no status", `"status": [200],`, `"status": [2000],`, "create.status[0]: want a whole number from 200 to 599"},
		{"waiting where nobody can", `"malformed": 400`, `"malformed": "wait"`, `expect.malformed: "wait" means nothing here`},
		{"another word", `"in_flight": "wait"`, `"in_flight": ["waits"]`, "expect.in_flight[0]: want one of wait"},
		{"no pointer", `"/order/order_id"`, `"order_id"`, `create.id: "order_id" is no JSON pointer`},
		{"the effects of others", `/v2/orders?reference={{unique}}`, `/v2/orders`, "effects: want a member, or {{unique}} in path"},
		{"list and count", `"list": `, `"count": "/n", "list": `, "effects: want either list or count"},
		{"too long to wait", `"longest": 64`, `"lifetime": "24h"`, "key.lifetime: want a time up to 1m0s"},
		{"three credentials", `{"header": "Api-Key", "value": "south"}`, `{"header": "A", "value": "b"}, {"header": "A", "value": "c"}`, "credentials: at most two"},
		{"a marker that marks nothing", `"again": "yes"`, `"again": ""`, "replay.marker: first and again are the same"},
		{"an update that needs a key", `"update": {`, `"update": {"method": "PATCH", `, "update.method: want PUT"},
		{"no success on the other route", `"status": 202, "answer": "own"`, `"answer": "own"`, "other_route.status: is missing"},
		{"nothing to count", `"effects": {"path": "/v2/orders?reference={{unique}}", "list": "/data/0/orders", "id": "/order_id"},`, "", ""},
		{"good", "", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			text := strings.Replace(ordersProfile, tt.old, tt.new, 1)
			if text == ordersProfile && tt.old != tt.new {
				t.Fatalf("%q is not in the profile", tt.old)
			}
			_, err := parseProfile([]byte(text))
			got := ""
			if err != nil {
				got = err.Error()
			}
			if !strings.HasPrefix(got, tt.want) || (err == nil) != (tt.want == "") || strings.Contains(got, "\n") || len(got) > 2*shownMistake {
				t.Errorf("parseProfile = %q, want %q", got, tt.want)
			}
		})
	}
	without := strings.NewReplacer(`"effects": {"path": "/v2/orders?reference={{unique}}", "list": "/data/0/orders", "id": "/order_id"},`, "", `, "id": "/order/order_id"`, "").Replace(ordersProfile)
	if _, err := parseProfile([]byte(without)); err == nil || !strings.HasPrefix(err.Error(), "effects: is missing, and create.id too") {
		t.Errorf("without effects and id = %v", err)
	}
}

// TestProfileCredentials: values come from the environment and from flags, and are in no
// error.
func TestProfileCredentials(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, first, second string
		env                 environment
		want                string // "" for none
	}{
		{"environment", "Bearer ${A}", "Bearer ${B}", environment{"A": "x", "B": "y"}, ""},
		{"flags", "Bearer {{token}}", "Bearer {{other-token}}", nil, ""},
		{"not set", "${A}", "y", nil, "credentials[0].value: the environment has no A"},
		{"the same", "${A}", "x", environment{"A": "x"}, "credentials[1]: must not be the first once more"},
		{"a line end", "x", "${B}", environment{"B": "secret\n"}, "credentials[1].value: only visible ASCII"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			text := strings.NewReplacer(`"${NORTH}"`, `"`+tt.first+`"`, `"south"`, `"`+tt.second+`"`).Replace(ordersProfile)
			p, err := parseProfile([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			err = p.resolve(tt.env.getenv, "x", "y")
			switch {
			case err == nil && tt.want == "":
				if a, b := p.credentials[0].value, p.credentials[1].value; a != "Bearer x" || b != "Bearer y" {
					t.Errorf("credentials = %q, %q, want Bearer x, Bearer y", a, b)
				}
			case err == nil || !strings.HasPrefix(err.Error(), tt.want) || strings.Contains(err.Error(), "secret"):
				t.Errorf("resolve = %v, want %q", err, tt.want)
			}
		})
	}
}

// TestRequestFillsPlaces: each value is escaped for where it stands.
func TestRequestFillsPlaces(t *testing.T) {
	t.Parallel()
	values := map[string]string{"unique": "u-1", "id": `a/b?"\ñ`, "etag": `"v1"`}
	tests := []struct {
		name string
		t    requestTemplate
		want string // path, body, media type
	}{
		{"path", requestTemplate{path: "/x/{{id}}?q={{unique}}"}, "/x/a%2Fb%3F%22%5C%C3%B1?q=u-1  "},
		{"JSON", requestTemplate{path: "/", body: []byte(`{"a":"{{id}}"}`)}, `/ {"a":"a/b?\"\\ñ"} application/json`},
		{"form", requestTemplate{path: "/", body: []byte(`a={{id}}`), text: true}, "/ a=a%2Fb%3F%22%5C%C3%B1 application/x-www-form-urlencoded"},
		{"its own type", requestTemplate{path: "/", body: []byte(`1`), headers: [][2]string{{"content-type", "application/x+json"}}}, "/ 1 application/x+json"},
		{"no such value", requestTemplate{path: "/{{other}}"}, "/{{other}}  "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := tt.t.call(mustURL(t, "http://x"), values)
			if got := c.path + " " + string(c.body) + " " + c.header.Get("Content-Type"); got != tt.want {
				t.Errorf("call = %q, want %q", got, tt.want)
			}
		})
	}
}

// TestCounting: what an answer says of the effects of u.
func TestCounting(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, how, body string
		status          int
		effects         int
		ids, fails      string
	}{
		{"a list of all", `{"path":"/","list":"/a~1b","member":"/n/0","id":"/id"}`, `{"a/b":[{"n":["u"],"id":12345678901234567890},{"n":["v"],"id":2},{"n":["u"],"id":"x"}]}`, 200, 2, "12345678901234567890 x", ""},
		{"the whole is the list", `{"path":"/?r={{unique}}","list":""}`, `[1,2,3]`, 200, 3, "", ""},
		{"a number", `{"path":"/?r={{unique}}","count":"/total"}`, `{"total":4}`, 200, 4, "", ""},
		{"a number as text", `{"path":"/?r={{unique}}","count":"/total"}`, `{"total":"4"}`, 200, 4, "", ""},
		{"nothing yet", `{"path":"/{{unique}}","count":"/total"}`, ``, 404, 0, "", ""},
		{"no such path", `{"path":"/","list":"","member":"/n"}`, ``, 404, 0, "", "llegó 404"},
		{"no list", `{"path":"/","list":"/x","member":"/n"}`, `{"x":{}}`, 200, 0, "", `no hay una lista en "/x"`},
		{"no number", `{"path":"/?r={{unique}}","count":"/x"}`, `{"x":1.5}`, 200, 0, "", `no hay un número en "/x"`},
		{"no JSON", `{"path":"/","list":"/x","member":"/n"}`, `<html>`, 200, 0, "", "llegó 200 <html>"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := &profileReader{}
			how := r.counting(profileNode{"effects", []byte(tt.how)})
			if r.mistake != nil {
				t.Fatal(r.mistake)
			}
			effects, ids, err := how.read(answer{status: tt.status, body: []byte(tt.body)}, "u")
			if effects != tt.effects || strings.Join(ids, " ") != tt.ids || (err == nil) != (tt.fails == "") || err != nil && !strings.Contains(err.Error(), tt.fails) {
				t.Errorf("read = %d, %q, %v, want %d, %q, %q", effects, ids, err, tt.effects, tt.ids, tt.fails)
			}
		})
	}
}

// TestVerifyWithoutCounting: where nothing can be asked, the ids that answers tell are
// counted, and what cannot be tested so is left out.
func TestVerifyWithoutCounting(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ wrong, want string }{{"", "23 of 23"}, {"keys do nothing", "FAIL replay"}} {
		p := ordersTestProfile(t, "http://"+serveHandler(t, newOrders(tt.wrong)))
		p.counting = nil
		lines, err := runVerify(t, t.Context(), p, nil)
		if told := strings.Join(lines, "\n"); !strings.Contains(told, tt.want) || !strings.Contains(told, "omitida get-with-key") || (err == nil) != (tt.wrong == "") {
			t.Errorf("run = %v, want %q in:\n%s", err, tt.want, told)
		}
	}
}

// TestVerifyCommandProfile: the whole command with a file, and the profile that it prints
// is one that it reads.
func TestVerifyCommandProfile(t *testing.T) {
	t.Parallel()
	printed, _, err := ran(t, nil, "verify", "--print-profile")
	if err != nil || printed != string(revisorProfile) {
		t.Errorf("verify --print-profile = %v, %q", err, printed)
	}
	file := filepath.Join(t.TempDir(), "orders.json")
	if err := os.WriteFile(file, []byte(ordersProfile), 0o644); err != nil {
		t.Fatal(err)
	}
	base := "http://" + serveHandler(t, newOrders(""))
	stdout, stderr, err := ran(t, environment{"NORTH": "north"}, "verify", "--profile="+file, "--format=tap", base)
	if err != nil || !strings.HasPrefix(stdout, "TAP version 1") || strings.Contains(stdout, "not ok") || stderr != "" {
		t.Errorf("verify = %v, %q, %q, want TAP in which all is ok", err, stdout, stderr)
	}
	_, _, err = ran(t, nil, "verify", "--profile="+file, base)
	if exitStatus(err) != 2 || !strings.Contains(err.Error(), file+": credentials[0].value: the environment has no NORTH") {
		t.Errorf("verify without NORTH = %v, want a wrong argument", err)
	}
	if _, _, err = ran(t, nil, "verify", "--profile=/dev/zero"); exitStatus(err) != 2 || !strings.Contains(err.Error(), "more than 1 MiB") {
		t.Errorf("verify of /dev/zero = %v, want a wrong argument", err)
	}
	_, _, err = ran(t, nil, "verify", "--profile="+file+".not")
	if exitStatus(err) != 2 {
		t.Errorf("verify of no file = %v, want a wrong argument", err)
	}
}
