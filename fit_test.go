// fit_test.go owns that a profile that does not fit is told as such, in one sentence, and
// that nothing is judged by it.

package main

import (
	"errors"
	"strings"
	"testing"
)

func TestProfileThatDoesNotFit(t *testing.T) {
	t.Parallel()
	const says = "aviso: el perfil no encaja con el servidor: "
	tests := []struct{ name, old, new, want string }{
		{"status", `"status": [200], "id"`, `"status": 201, "id"`, says + `create.status dice 201 y llegó 200 {"order":`},
		{"id", `"/order/order_id"`, `"/id"`, says + `create.id dice "/id" y ahí no hay nada: llegó 200 {"order":`},
		{"list", `"/data/0/orders"`, `"/orders"`, says + `effects: con GET /v2/orders?reference=v-`},
		{"path", `/v2/orders?reference={{unique}}`, `/v2/orders?ref={{unique}}`, says + "effects (path, list, member, count): con GET /v2/orders?ref=v-"},
		{"member", `"list": "/data/0/orders"`, `"list": "/data/0/orders", "member": "/name"`, says + "effects (path, list, member, count): con GET "},
		{"id in the list", `"id": "/order_id"},`, `"id": "/nope"},`, says + `effects.id dice "/nope" y ahí no hay nada en lo que lista GET /v2/orders?reference=v-`},
		{"removal", `"remove": {"path": "/v2/orders/{{id}}", "status": 200}`, `"remove": {"path": "/v2/orders/{{id}}", "status": 204}`, says + "remove.status dice 204 y llegó 200 {}"},
		{"credential", `"${NORTH}"`, `"west"`, says + "effects: con GET "},
		{"second credential", `"value": "south"`, `"value": "west"`, says + "effects: con GET "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := newOrders("")
			p := ordersTestProfile(t, "http://"+serveHandler(t, server), tt.old, tt.new)
			lines, err := runVerify(t, t.Context(), p, nil)
			if !errors.Is(err, errVerifyFailed) || !strings.HasPrefix(lines[0], tt.want) || len(failedChecks(lines)) > 0 {
				t.Errorf("run = %v, %q, want first %q and no check failed", err, lines, tt.want)
			}
			if last := lines[len(lines)-1]; !strings.HasPrefix(last, "0 of 2") {
				t.Errorf("last line = %q, want nothing passed", last)
			}
			if n := strings.Count(strings.Join(lines, "\n"), "no se probó "); n > 6 {
				t.Errorf("%d lines say what was not tested, want one for each reason", n)
			}
			if left := server.left(); left > 0 && tt.name != "path" && tt.name != "id" { // which do not say how to see it
				t.Errorf("%d orders are left:\n%s", left, strings.Join(lines, "\n"))
			}
		})
	}
}
