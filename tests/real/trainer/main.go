// Program trainer is the controller of Kubeflow's Trainer with its webhooks.
//
// It differs from the controller's own main in what a cluster would give it: certificates are read from the folder that is
// named, not made in a Secret, and all that it serves is on loopback.
package main

import (
	"flag"
	"fmt"

	trainer "github.com/kubeflow/trainer/v2/pkg/apis/trainer/v1alpha1"
	"github.com/kubeflow/trainer/v2/pkg/controller"
	runtimecore "github.com/kubeflow/trainer/v2/pkg/runtime/core"
	"github.com/kubeflow/trainer/v2/pkg/webhooks"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlpkg "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	coscheduling "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
	volcano "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
)

func main() {
	certificates := flag.String("certificates", "", "the folder with tls.crt and tls.key")
	port := flag.Int("port", 0, "where the webhooks are served")
	flag.Parse()
	ctrl.SetLogger(zap.New())

	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, trainer.AddToScheme, jobset.AddToScheme, coscheduling.AddToScheme, volcano.AddToScheme,
	} {
		utilruntime.Must(add(scheme))
	}
	manager, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Scheme:                 scheme,
		Client:                 client.Options{Cache: &client.CacheOptions{Unstructured: true}},
		Metrics:                metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress: "0",
		WebhookServer: webhook.NewServer(webhook.Options{
			Host: "127.0.0.1", Port: *port, CertDir: *certificates,
		}),
	})
	utilruntime.Must(err)
	ctx := ctrl.SetupSignalHandler()
	runtimes, err := runtimecore.New(ctx, manager.GetClient(), manager.GetFieldIndexer())
	utilruntime.Must(err)
	if name, err := controller.SetupControllers(manager, runtimes, ctrlpkg.Options{}); err != nil {
		panic(fmt.Sprintf("controller %s: %v", name, err))
	}
	if name, err := webhooks.Setup(manager, runtimes); err != nil {
		panic(fmt.Sprintf("webhook %s: %v", name, err))
	}
	utilruntime.Must(manager.Start(ctx))
}
