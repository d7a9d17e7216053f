// Pays from a wallet of a Holdfast hub: issue, select with a wait, spend with the fence. Standard library only.
//
//	go run docs/examples/tokens.go -hub http://127.0.0.1:4000
package main

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"
)

// Token is a token as it is issued and shown. Quantities are strings: no float, no 2^53.
type Token struct {
	ID       string `json:"id,omitempty"`
	Wallet   string `json:"wallet"`
	Currency string `json:"currency,omitempty"`
	Quantity string `json:"quantity"`
}

// Selection is what a select has locked.
type Selection struct {
	Tokens    []Token   `json:"tokens"`
	Sum       string    `json:"sum"`
	Change    string    `json:"change"`
	ExpiresAt time.Time `json:"expiresAt"`
	Fence     string    `json:"fence"`
}

// Transaction is a spend that happened.
type Transaction struct {
	ID       string   `json:"transaction"`
	Consumed []string `json:"consumed"`
	Produced []Token  `json:"produced"`
}

// Problem is a refusal (RFC 9457).
type Problem struct {
	Type   string `json:"type"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
}

func (p *Problem) Error() string { return p.Type + ": " + p.Detail }

// Is tells one kind of problem from the others.
func (p *Problem) Is(target error) bool {
	other, ok := target.(*Problem)
	return ok && p.Type == other.Type
}

var (
	leaseLost   = &Problem{Type: "/problems/lease-lost"}
	tokenExists = &Problem{Type: "/problems/token-exists"}
)

// Hub is where the wallets are.
type Hub struct {
	url, key string
	client   http.Client
}

// post sends a request until the hub has decided. After 503, 504 or a broken connection nobody knows whether it was
// done; it is safe to repeat because the spender (or the token's id) names it: a repeat gets the first one's answer.
func (h *Hub) post(path string, request, answer any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	deadline := time.Now().Add(2 * time.Minute)
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		err = h.once(path, body, answer)
		var problem *Problem
		undecided := !errors.As(err, &problem) || problem.Status == 429 || problem.Status >= 500
		if err == nil || !undecided || time.Now().After(deadline) {
			return err
		}
		log.Printf("%s: %v; once more", path, err)
		time.Sleep(pause)
	}
}

func (h *Hub) once(path string, body []byte, answer any) error {
	request, err := http.NewRequest(http.MethodPost, h.url+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if h.key != "" {
		request.Header.Set("Authorization", "Bearer "+h.key)
	}
	response, err := h.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode < 300 {
		return json.NewDecoder(response.Body).Decode(answer)
	}
	problem := &Problem{}
	if err := json.NewDecoder(response.Body).Decode(problem); err != nil {
		problem.Detail = response.Status
	}
	problem.Status = response.StatusCode
	return problem
}

// issue makes a token. Its id is ours, so a repeat finds that it exists and is done.
func (h *Hub) issue(token Token) error {
	err := h.post("/tokens/issue", map[string]any{"tokens": []Token{token}}, &struct{}{})
	if errors.Is(err, tokenExists) {
		return nil
	}
	return err
}

// pay moves an amount from one wallet to another, once, however often it is called with the same payment.
func (h *Hub) pay(payment, from, to, currency, amount string) (Transaction, error) {
	for {
		var selection Selection
		var done Transaction
		// First the spend alone: if an earlier attempt got that far, this is its transaction.
		spend := map[string]any{"spender": payment, "outputs": []Token{{Wallet: to, Quantity: amount}}}
		err := h.post("/tokens/spend", spend, &done)
		if !errors.Is(err, leaseLost) {
			return done, err
		}
		err = h.post("/tokens/select", map[string]any{
			"spender": payment, "wallet": from, "currency": currency, "amount": amount,
			"leaseMs": 30_000, "waitMs": 10_000, // wait for what other payments hold
		}, &selection)
		if err != nil {
			return done, err
		}
		// With the fence nobody can spend a later lock of the same name by mistake.
		spend["fence"] = selection.Fence
		err = h.post("/tokens/spend", spend, &done)
		if !errors.Is(err, leaseLost) {
			return done, err
		}
		// We were slower than our lease: nothing was spent, so select again.
	}
}

func newName(prefix string) string {
	var bytes [16]byte
	rand.Read(bytes[:])
	return prefix + "-" + hex.EncodeToString(bytes[:])
}

func main() {
	url := flag.String("hub", "http://127.0.0.1:4000", "where the hub listens")
	flag.Parse()
	// Longer than any waitMs.
	hub := &Hub{url: *url, key: os.Getenv("HOLDFAST_KEY"), client: http.Client{Timeout: 95 * time.Second}}
	alice, bob := newName("alice"), newName("bob")
	if err := hub.issue(Token{ID: newName("token"), Wallet: alice, Currency: "EUR", Quantity: "100"}); err != nil {
		log.Fatal(err)
	}
	payment := newName("payment") // keep it with the order, before the first call
	transaction, err := hub.pay(payment, alice, bob, "EUR", "30")
	if err != nil {
		log.Fatal(err)
	}
	for _, token := range transaction.Produced {
		fmt.Printf("%s %s -> %s\n", token.Quantity, token.Currency, token.Wallet)
	}
	again, err := hub.pay(payment, alice, bob, "EUR", "30")
	if err != nil || again.ID != transaction.ID {
		log.Fatalf("a repeat must get the same transaction, not %v, %v", again, err)
	}
	fmt.Println("paid once:", transaction.ID)
}
