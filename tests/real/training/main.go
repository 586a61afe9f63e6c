// Program training is Kubeflow's training operator with its webhooks, for the kinds that are admitted as gangs.
//
// It differs from the operator's own main in what a cluster would give it: certificates are read from the folder that is
// named, not made in a Secret, and all that it serves is on loopback.
package main

import (
	"flag"

	"github.com/kubeflow/training-operator/pkg/apis/kubeflow.org/v1"
	"github.com/kubeflow/training-operator/pkg/config"
	controllers "github.com/kubeflow/training-operator/pkg/controller.v1"
	"github.com/kubeflow/training-operator/pkg/controller.v1/common"
	"github.com/kubeflow/training-operator/pkg/webhooks"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

func main() {
	certificates := flag.String("certificates", "", "the folder with tls.crt and tls.key")
	port := flag.Int("port", 0, "where the webhooks are served")
	flag.Parse()
	ctrl.SetLogger(zap.New())
	config.Config.PyTorchInitContainerImage = config.PyTorchInitContainerImageDefault
	config.Config.PyTorchInitContainerMaxTries = config.PyTorchInitContainerMaxTriesDefault

	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1.AddToScheme(scheme))
	manager, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Scheme:                 scheme,
		Metrics:                metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress: "0",
		WebhookServer: webhook.NewServer(webhook.Options{
			Host: "127.0.0.1", Port: *port, CertDir: *certificates,
		}),
	})
	utilruntime.Must(err)
	for _, kind := range []string{v1.PyTorchJobKind, v1.TFJobKind} {
		setup := controllers.SupportedSchemeReconciler[kind]
		utilruntime.Must(setup(manager, common.GenNonGangSchedulerSetupFunc(), 1))
		utilruntime.Must(webhooks.SupportedSchemeWebhook[kind](manager))
	}
	utilruntime.Must(manager.Start(ctrl.SetupSignalHandler()))
}
